/** A picture from a file, which goes along with the question as a data URL. */
import { useState } from "preact/hooks";
import { Button, Field } from "../../ui/form.tsx";
import { draft } from "./state.ts";

const maxBytes = 5_000_000;
const kinds = ["image/png", "image/jpeg", "image/gif", "image/webp"];

const readAsUrl = (file: File) =>
  new Promise<string>((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });

export function PictureInput() {
  const [fault, setFault] = useState<string>();
  const { image } = draft.value;
  const put = (url: string | undefined) => {
    draft.value = { ...draft.value, image: url };
  };
  const take = async (input: HTMLInputElement) => {
    const [file] = input.files ?? [];
    input.value = "";
    if (file === undefined) return;
    if (!kinds.includes(file.type)) setFault("A picture is PNG, JPEG, GIF or WebP.");
    else if (file.size > maxBytes) setFault("A picture has 5 MB at most.");
    else {
      setFault(undefined);
      await readAsUrl(file).then(put, (error) => setFault(String(error)));
    }
  };
  return image === undefined ? (
    <Field label="Picture" error={fault}>
      <input type="file" accept={kinds.join()} onChange={(event) => void take(event.currentTarget)} />
    </Field>
  ) : (
    <>
      <img class="chosen" src={image} alt="That goes along" />
      <Button onClick={() => put(undefined)}>Without the picture</Button>
    </>
  );
}
