declare module "*.tiktoken" {
  /** Where the file lies, in the executable too. */
  const path: string;
  export default path;
}
