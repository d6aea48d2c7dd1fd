declare module "*/list.txt" {
  const text: string;
  export default text;
}
