declare module "*.tiktoken" {
  /** Path of the file, in the executable too. */
  const path: string;
  export default path;
}
