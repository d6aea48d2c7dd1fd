/** Forms with files, passed on as they arrive: the field `model` gets the name that it has at the upstream. */
import type { Caller } from "../../auth/keys.ts";
import { isFree } from "../../call/admit/named.ts";
import type { RequestContext } from "../../call/context.ts";
import { serviceRequestId } from "../../call/once.ts";
import { formBounds } from "../../call/plan/bounds.ts";
import { namedByField } from "../../call/read/body-names.ts";
import { contentLength } from "../../call/read/request-body.ts";
import { RequestSource } from "../../call/read/request-source.ts";
import type { Services } from "../../call/services.ts";
import { maxRepeated } from "../../lib/http/client.ts";
import type { Sink, Source } from "../../lib/streams/flow.ts";
import { MultipartFault, MultipartField } from "../../lib/streams/multipart.ts";
import { ApiError } from "../../protocols/errors.ts";
import type { Operation } from "../../providers/provider.ts";
import type { AttemptBounds } from "../../usage/attempt.ts";
import { endpointOf, type Relay, relayTo, respondVia, sendVia } from "./relay.ts";

/**
 * Reads until the model is known, holding what stands before it; the rest streams, unless the form is short: then it can go by a
 * connection that was used before.
 * @throws ApiError request_too_large where more stands before it than a body may have; missing_field, invalid_value…
 */
export async function passForm(
  services: Services,
  context: RequestContext,
  caller: Caller,
  operation: Operation,
  boundary: string,
): Promise<Response> {
  refuseRequestId(context);
  let relay: Relay | undefined;
  const others = new OtherFields(services, context, caller);
  const named = (model: string) => {
    if (model === "") throw ApiError.missingField("model");
    const bounds = { ...formBounds(context, operation), ...others.bounds() };
    relay = relayTo({ services, context, caller }, model, bounds);
    others.allowAt(relay.bound.account.name);
    return relay.model;
  };
  const field = new MultipartField(boundary, "model", named, (name) => others.found(name));
  const { request } = context;
  if (request.body === null) throw ApiError.missingField("model");
  const reader = request.body.getReader() as ReadableStreamDefaultReader<Uint8Array>;
  const { bodyBytes } = services.live.config.limits;
  const held: Buffer[] = [];
  const declared = contentLength(request.headers);
  const isShort = declared !== undefined && declared <= maxRepeated;
  const untilModel = async () => {
    let size = 0;
    while (relay === undefined || isShort) {
      const { done, value } = await reader.read();
      if (done) {
        held.push(...formEnd(field));
        if (relay === undefined) throw ApiError.missingField("model");
        return;
      }
      size += value.length;
      context.hold(value.length);
      held.push(...formPart(field, value));
      if (relay === undefined && size > bodyBytes) throw ApiError.requestTooLarge(bodyBytes);
    }
  };
  try {
    await context.arrival(untilModel());
  } catch (error) {
    reader.cancel().catch(() => {});
    throw error;
  }
  const known = relay!;
  context.setIdleTimeout(uploadIdleSeconds(services));
  const sent = {
    url: endpointOf(known, operation),
    headers: { "content-type": request.headers.get("content-type")! },
    body: isShort
      ? held
      : {
          source: new FormSource(held, new RequestSource(reader), field),
          length: declared === undefined ? undefined : declared + field.growth,
        },
  };
  const answer = await sendVia(known, sent, request.signal, () => {
    context.release();
    context.setIdleTimeout(0);
  });
  return respondVia(known, answer, operation);
}

/** Fields beside `model` that name something: another model, or a file that is elsewhere. Of a form that streams, its names are all that is known. */
class OtherFields {
  readonly #caller: Caller;
  readonly #isHeld: boolean;
  #model: string | undefined;
  #file: string | undefined;
  /** Once it is known what the call asks for: whether the caller may use all that is there. */
  #mayName: boolean | undefined;

  constructor(services: Services, context: RequestContext, caller: Caller) {
    this.#caller = caller;
    this.#isHeld =
      services.live.config.budgets.unknownPrice === "refuse" && services.budgets.holds(caller, context.tags);
  }

  found(name: string): void {
    const kind = namedByField(name);
    if (kind === "model") this.#model ??= name;
    else if (kind === "file") this.#file ??= name;
    if (this.#mayName === undefined || kind === undefined) return;
    this.#check(this.#mayName);
    if (kind === "file" && this.#isHeld)
      throw ApiError.invalidValue(name, `${name} must stand before model, as a budget applies to the call.`);
  }

  /** How much a file that is elsewhere costs is not known. */
  bounds(): Pick<AttemptBounds, "billed" | "unbounded"> {
    return this.#file === undefined ? {} : { billed: "unknown", unbounded: this.#file };
  }

  /** @throws ApiError model_not_allowed */
  allowAt(account: string): void {
    this.#mayName = isFree(this.#caller, account);
    this.#check(this.#mayName);
  }

  #check(mayName: boolean): void {
    if (!mayName && this.#model !== undefined) throw ApiError.modelNotAllowed(this.#model).at(this.#model);
  }
}

/** @throws ApiError invalid_value: a body that streams through can't be compared with that of a retry */
function refuseRequestId(context: RequestContext): void {
  if (serviceRequestId(context) === undefined) return;
  throw ApiError.invalidValue(
    "service-request-id",
    "service-request-id is not supported for bodies that stream through.",
  );
}

/** The seconds for which a client may send nothing while its body streams through. */
export function uploadIdleSeconds({ live }: Services): number {
  return Math.min(255, Math.max(1, Math.ceil(live.config.limits.bodySeconds)));
}

/** @throws ApiError invalid_value for a broken form */
function formPart(field: MultipartField, bytes: Uint8Array): Buffer[] {
  try {
    return field.push(bytes);
  } catch (error) {
    throw formFault(error);
  }
}

function formEnd(field: MultipartField): Buffer[] {
  try {
    return field.end();
  } catch (error) {
    throw formFault(error);
  }
}

function formFault(error: unknown): unknown {
  if (!(error instanceof MultipartFault)) return error;
  return ApiError.invalidValue("", `The form can't be read: ${error.message}.`);
}

/** A form's body: what was held of it, and then what still comes. */
class FormSource implements Source<Uint8Array> {
  #held: readonly Buffer[];
  readonly #rest: RequestSource;
  readonly #field: MultipartField;

  constructor(held: readonly Buffer[], rest: RequestSource, field: MultipartField) {
    this.#held = held;
    this.#rest = rest;
    this.#field = field;
  }

  flow(sink: Sink<Uint8Array>): void {
    const held = this.#held;
    this.#held = [];
    for (const part of held) sink.push(part);
    const pass = (parts: () => Buffer[], then?: () => void) => {
      try {
        for (const part of parts()) sink.push(part);
        then?.();
      } catch (error) {
        this.#rest.cancel();
        sink.fail(error);
      }
    };
    this.#rest.flow({
      push: (bytes) => pass(() => formPart(this.#field, bytes)),
      end: () =>
        pass(
          () => formEnd(this.#field),
          () => sink.end(),
        ),
      fail: (error) => sink.fail(error),
    });
  }

  pause(): void {
    this.#rest.pause();
  }

  resume(): void {
    this.#rest.resume();
  }

  cancel(): void {
    this.#held = [];
    this.#rest.cancel();
  }
}
