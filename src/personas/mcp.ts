/** A persona's tools by MCP: the servers, by the names that the configuration has them under, and the bounds of their use. */
import { type Static, type TSchema, Type } from "@sinclair/typebox";
import { Closed, Open } from "../lib/json/schemas.ts";
import { toolBounds } from "../protocols/tool-bounds.ts";

const ToolNames = Type.Array(Type.String({ minLength: 1, maxLength: 256 }), {
  minItems: 1,
  maxItems: 256,
  description: "Its tools that the model is given; `*` stands for any characters. Default: all.",
});

export const McpField = Type.Array(
  Closed({
    server: Type.String({ minLength: 1, description: "Its name in the configuration's mcp_servers." }),
    allow: Type.Optional(ToolNames),
    arguments: Type.Optional(
      Open(
        {},
        {
          description:
            "Arguments that every call gets, and that the model neither sees nor sets. A tool that does not take all of them is left out.",
        },
      ),
    ),
    optional: Type.Optional(
      Type.Boolean({
        description: "true: while the server has never answered, the persona answers without it. Default false.",
      }),
    ),
  }),
  { minItems: 1, maxItems: 32, description: "MCP servers whose tools are called here while it answers." },
);

const { turns, parallel, calls, seconds, result_bytes, total_bytes, dollars, find_above } = toolBounds;
const bound = <T extends TSchema>(schema: T) => Type.Optional(schema);

export const McpLimitsField = Closed(
  {
    turns: bound(Type.Integer(turns)),
    parallel: bound(Type.Integer(parallel)),
    calls: bound(Type.Integer(calls)),
    seconds: bound(Type.Number(seconds)),
    result_bytes: bound(Type.Integer(result_bytes)),
    total_bytes: bound(Type.Integer(total_bytes)),
    dollars: bound(Type.Number(dollars)),
    find_above: bound(Type.Integer(find_above)),
  },
  { description: "Bounds of the use of its MCP tools in one request, where they differ from the configuration's mcp." },
);

/** Tools of one server that may be called, and how. */
export type ToolGrant = {
  readonly server: string;
  /** Globs over their names; absent: all. */
  readonly allow?: readonly string[] | undefined;
  readonly arguments?: Readonly<Record<string, unknown>> | undefined;
  readonly optional?: boolean | undefined;
};

export type ToolLimits = {
  readonly turns?: number;
  readonly parallel?: number;
  readonly calls?: number;
  readonly seconds?: number;
  readonly resultBytes?: number;
  readonly totalBytes?: number;
  readonly dollars?: number;
  readonly findAbove?: number;
};

/** By the names that the configuration's bounds have in the code. */
export function toolLimitsOf(file: Static<typeof McpLimitsField>): ToolLimits {
  const { result_bytes: resultBytes, total_bytes: totalBytes, find_above: findAbove, ...same } = file;
  return {
    ...same,
    ...(resultBytes !== undefined && { resultBytes }),
    ...(totalBytes !== undefined && { totalBytes }),
    ...(findAbove !== undefined && { findAbove }),
  };
}
