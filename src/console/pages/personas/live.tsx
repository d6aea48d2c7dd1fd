/** What a call of a persona sends now: its system text with variables filled in, and the very request to each of its models. */

import { useState } from "preact/hooks";
import type { RenderedPersona } from "../../../api/personas.ts";
import { post } from "../../api.ts";
import { useResource } from "../../data.ts";
import { pretty } from "../../ui/code.tsx";
import { Copy, Curl } from "../../ui/copy.tsx";
import { Field, Select, TextInput } from "../../ui/form.tsx";
import { Badge, Bar, Facts, Panel } from "../../ui/layout.tsx";
import { Loaded } from "../../ui/states.tsx";
import { LastReport, OwnPreviews, SinceStable } from "./differences.tsx";
import type { PersonaDetails } from "./types.ts";

const textOf = (content: unknown) => (typeof content === "string" ? content : JSON.stringify(content, null, 2));

const Sent = ({ text }: { readonly text: string }) => (
  // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
  <pre class="sent" tabIndex={0}>
    {text}
  </pre>
);

const members = (of: Readonly<Record<string, unknown>>) =>
  Object.entries(of)
    .map(([name, value]) => `${name}: ${JSON.stringify(value)}`)
    .join(", ") || undefined;

export function Live({ persona }: { readonly persona: PersonaDetails }) {
  const { id, variables } = persona;
  const [question, setQuestion] = useState("Hello!");
  const [values, setValues] = useState<Readonly<Record<string, string>>>({});
  const [variant, setVariant] = useState("");
  const given = Object.fromEntries(Object.entries(values).filter(([, value]) => value !== ""));
  const body = {
    persona: id,
    request: {
      messages: [{ role: "user", content: question || "Hello!" }],
      ...(Object.keys(given).length > 0 && { variables: given }),
    },
    ...(variant !== "" && { variant }),
  };
  const rendered = useResource(
    (signal) => post<RenderedPersona>("v1/personas/render", body, { signal }),
    [body, persona.version],
  );
  return (
    <>
      <Facts
        items={[
          ["Version", <code key="version">{persona.version}</code>],
          ["Models", persona.models.join(", ")],
          ["Plan", persona.tier],
          ["Owner", persona.owned_by],
          ["Tags", persona.tags.join(", ") || undefined],
          ["Defaults", members(persona.defaults)],
          ["Limits", members(persona.limits)],
          ["Options", members(persona.options)],
          ["Stop", persona.stop.map((text) => JSON.stringify(text)).join(", ") || undefined],
          ["Tools", persona.tools.map((tool) => tool.function?.name).join(", ") || undefined],
          ["Greeting", persona.greeting ?? undefined],
        ]}
      />
      <SinceStable {...persona} />
      <OwnPreviews {...persona} />
      {persona.reports.length > 0 && <LastReport {...persona} />}
      <Panel
        title="What is sent"
        note="Nothing is sent by looking"
        actions={<Curl method="POST" path="v1/personas/render" body={body} />}
      >
        <Bar label="The request">
          <Field label="Question">
            <TextInput value={question} onInput={setQuestion} />
          </Field>
          {Object.entries(variables).map(([name, { description, default: byDefault, enum: choices, required }]) => {
            const set = (value: string) => setValues({ ...values, [name]: value });
            return (
              <Field key={name} label={name} hint={description ?? (required ? "required" : undefined)}>
                {choices === undefined ? (
                  <TextInput value={values[name] ?? ""} onInput={set} placeholder={byDefault ?? ""} />
                ) : (
                  <Select
                    value={values[name] ?? ""}
                    options={[{ value: "", title: byDefault ?? "–" }, ...choices]}
                    onChange={set}
                  />
                )}
              </Field>
            );
          })}
          {persona.variants.length > 0 && (
            <Field label="Variant">
              <Select
                value={variant}
                options={[{ value: "", title: "the largest" }, ...persona.variants]}
                onChange={setVariant}
              />
            </Field>
          )}
        </Bar>
        <Loaded resource={rendered}>
          {({ composed, models, variant: shown }) => (
            <>
              {shown !== null && <p>Variant {shown}</p>}
              {composed.messages.map(({ role, content }, at) => (
                <section key={at}>
                  <h3>{role}</h3>
                  <Sent text={textOf(content)} />
                </section>
              ))}
              {models.map(({ model, use, request, error }) => (
                <details key={model}>
                  <summary>
                    <code>{model}</code>{" "}
                    <Badge tone={use === "first" ? "ok" : use === "fallback" ? "quiet" : "warn"}>{use}</Badge>
                  </summary>
                  {error !== undefined && <p class="error">{error.message}</p>}
                  {request === null ? (
                    error === undefined && <p class="muted">Answered by this server itself.</p>
                  ) : (
                    <>
                      <Bar>
                        <code>{request.url}</code>
                        <Copy text={request.body} label="Copy the body" />
                      </Bar>
                      <Sent text={pretty(request.body)} />
                    </>
                  )}
                </details>
              ))}
            </>
          )}
        </Loaded>
      </Panel>
    </>
  );
}
