/** Asks for an admin key, over the page that waits for it. */
import { useState } from "preact/hooks";
import { ApiFailure, apiUrl, failureOf, signedIn } from "./api.ts";
import { Button, Dialog, Field, TextInput } from "./ui/form.tsx";

export function SignIn() {
  const [key, setKey] = useState("");
  const [error, setError] = useState<string>();
  const [busy, setBusy] = useState(false);
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
      signedIn();
    } catch (failure) {
      setError(failure instanceof ApiFailure ? failure.message : "The server does not answer.");
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog title="Sign in" open onClose={() => {}}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <Field label="Admin key" hint="Made by: troupe keys create --name me --surfaces admin" error={error}>
          <TextInput type="password" value={key} onInput={setKey} autofocus autocomplete="current-password" required />
        </Field>
        <Button type="submit" tone="primary" busy={busy}>
          Sign in
        </Button>
      </form>
    </Dialog>
  );
}
