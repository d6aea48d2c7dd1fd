/** Asks for an admin key, over the page that waits for it; shows who is signed in, and signs out. */

import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import type { SignedIn } from "../api/sessions.ts";
import { ApiFailure, apiUrl, failureOf, get, remove, signedIn } from "./api.ts";
import { useResource } from "./data.ts";
import { Button, Dialog, Field, TextInput } from "./ui/form.tsx";
import { forgetEverywhere, isSameActor, ownActor } from "./who.ts";

/** Number of sign-ins on this page: the next one may be by another key. */
const signIns = signal(0);

export function SignIn() {
  const [key, setKey] = useState("");
  const [error, setError] = useState<string>();
  const [busy, setBusy] = useState(false);
  const [open, setOpen] = useState(true);
  const [before] = useState(() => document.activeElement);
  const [hasEnded] = useState(() => ownActor() !== undefined);
  // Whoever was at something goes on there; the dialog goes away without giving the focus back.
  useEffect(
    () => () =>
      queueMicrotask(() => {
        const isGone = before === document.body || !before?.isConnected;
        const next = isGone ? document.querySelector<HTMLElement>("main h1") : (before as HTMLElement);
        if (document.activeElement === document.body) next?.focus();
      }),
    [],
  );
  // A browser that came in meanwhile, in another tab, say, is in here too.
  useEffect(() => {
    const look = async () => {
      // The page says whether anybody is: an answer that refuses would be an error in the browser's console.
      if (document.hidden || (await isNobodyIn())) return;
      const answer = await fetch(apiUrl("v1/session")).catch(() => undefined);
      if (answer?.ok === true) enter((await answer.json()) as SignedIn);
    };
    document.addEventListener("visibilitychange", look);
    return () => document.removeEventListener("visibilitychange", look);
  }, []);
  const submit = async () => {
    setBusy(true);
    setError(undefined);
    try {
      const answer = await fetch(apiUrl("v1/session"), {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ key: key.trim() }),
      });
      if (!answer.ok) throw await failureOf(answer);
      setKey("");
      enter((await answer.json()) as SignedIn);
    } catch (failure) {
      setError(failure instanceof ApiFailure ? wordsFor(failure) : "The server does not answer.");
    } finally {
      setBusy(false);
    }
  };
  if (!open)
    return (
      <p class="notice warn signed-out" role="status">
        Nobody is signed in: what is shown may be old. <Button onClick={() => setOpen(true)}>Sign in</Button>
      </p>
    );
  return (
    <Dialog title={hasEnded ? "Your session ended" : "Sign in to Troupe"} open onClose={() => setOpen(false)}>
      <p class="muted">
        {hasEnded
          ? "It does an hour after its last use. Sign in again, and the page goes on where it was."
          : "Troupe answers chat requests by personas and by models of any provider. Here is what it does and costs, and who may use it, for those who run it."}
      </p>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        {/* Lets password managers keep the key under a name. */}
        <input hidden readOnly autocomplete="username" value="Troupe" />
        <Field
          label="Admin key"
          hint={
            <>
              The first start wrote one to first-key in the data folder; another is made by{" "}
              <code>troupe keys create ops --surfaces admin</code>
            </>
          }
          error={error}
        >
          <TextInput type="password" value={key} onInput={setKey} autofocus autocomplete="current-password" required />
        </Field>
        <Button type="submit" tone="primary" busy={busy}>
          Sign in
        </Button>
      </form>
    </Dialog>
  );
}

async function isNobodyIn(): Promise<boolean> {
  const page = await fetch("console").catch(() => undefined);
  return page?.ok !== true || (await page.text()).includes('data-session="none"');
}

function enter({ actor }: SignedIn): void {
  if (!isSameActor(actor)) return;
  signIns.value += 1;
  signedIn();
}

function wordsFor({ status, code, message }: ApiFailure): string {
  if (status === 401) return "This key is unknown, mistyped, expired or revoked.";
  if (code === "surface_not_allowed") return "This key is valid, but admin is not among its surfaces.";
  return message;
}

/** Ends the session, and forgets all that the page shows. */
export async function signOut(): Promise<void> {
  await remove("v1/session");
  forgetEverywhere();
}

/** Who is signed in, with the way out where there is one. */
export function Account() {
  const { data } = useResource((left) => get<SignedIn>("v1/session", {}, { signal: left }), [signIns.value]);
  useEffect(() => {
    if (data !== undefined) isSameActor(data.actor);
  }, [data?.actor]);
  if (data === undefined) return null;
  return (
    <div class="account">
      <small class="muted" title={data.actor}>
        {data.user ?? data.key?.name}
      </small>
      {data.signed_in_by === "session" && <Button onClick={signOut}>Sign out</Button>}
    </div>
  );
}
