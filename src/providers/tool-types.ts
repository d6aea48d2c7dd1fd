/** The refusal of tools that only upstreams of the chat format may know. */
import { ApiError } from "../protocols/errors.ts";

/**
 * @param path where the tool, its call or the choice stands, for errors
 * @throws ApiError unsupported_parameter naming the type and its place
 */
export function refuseType(type: string, path: string, instead = ""): never {
  const param = `${path}.type`;
  throw ApiError.unsupported(param, `${param}: '${type}' is no type of tool that this provider takes.${instead}`);
}
