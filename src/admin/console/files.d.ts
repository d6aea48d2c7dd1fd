/** Files that the build writes. */
declare module "*/dist/console/console.js" {
  const path: string;
  export default path;
}
declare module "*.css" {
  const path: string;
  export default path;
}
