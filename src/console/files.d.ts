/** Style sheets, which the bundler puts into one. */
declare module "*.css";
