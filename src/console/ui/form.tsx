/** Buttons, fields and dialogs. */
import type { ComponentChildren } from "preact";
import { cloneElement, type VNode } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";

export type ButtonProps = {
  readonly onClick?: () => unknown;
  readonly tone?: "primary" | "danger" | "plain" | "quiet";
  readonly type?: "button" | "submit";
  /** Whether what it began is still under way: it can't be pressed again. */
  readonly busy?: boolean;
  readonly disabled?: boolean;
  /** For a button whose children are no words. */
  readonly label?: string;
  readonly pressed?: boolean;
  readonly children: ComponentChildren;
};

export function Button({
  onClick,
  tone = "plain",
  type = "button",
  busy = false,
  disabled = false,
  label,
  pressed,
  children,
}: ButtonProps) {
  return (
    <button
      type={type}
      class={`button ${tone}`}
      disabled={disabled || busy}
      aria-busy={busy}
      aria-label={label}
      aria-pressed={pressed}
      onClick={onClick && (() => void onClick())}
    >
      {children}
    </button>
  );
}

type SegmentsProps<Id extends string> = {
  readonly label: string;
  readonly of: readonly { readonly id: Id; readonly title: string }[];
  readonly chosen: string;
  readonly onChoose: (id: Id) => void;
};

/** One of a few, side by side. */
export const Segments = <Id extends string>({ label, of, chosen, onChoose }: SegmentsProps<Id>) => (
  <fieldset class="range segments">
    <legend class="unseen">{label}</legend>
    {of.map(({ id, title }) => (
      <Button key={id} pressed={id === chosen} onClick={() => onChoose(id)}>
        {title}
      </Button>
    ))}
  </fieldset>
);

type FieldProps = {
  readonly label: string;
  readonly hint?: ComponentChildren;
  readonly error?: string | undefined;
  readonly children: VNode;
};

/** A control with its name, and what is wrong with its value. */
export function Field({ label, hint, error, children }: FieldProps) {
  const id = useId();
  const described = error !== undefined ? `${id}-error` : hint !== undefined ? `${id}-hint` : undefined;
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {cloneElement(children, { id, "aria-describedby": described, "aria-invalid": error !== undefined })}
      {hint !== undefined && (
        <small id={`${id}-hint`} class="muted">
          {hint}
        </small>
      )}
      {error !== undefined && (
        <small id={`${id}-error`} class="error" role="alert">
          {error}
        </small>
      )}
    </div>
  );
}

type Attributes = {
  readonly id?: string;
  readonly name?: string;
  readonly class?: string;
  readonly placeholder?: string;
  readonly required?: boolean;
  readonly disabled?: boolean;
  readonly autofocus?: boolean;
  readonly "aria-label"?: string;
};

type InputProps = Attributes & {
  readonly type?: "text" | "search" | "password" | "number" | "date" | "datetime-local" | "url";
  readonly value: string;
  readonly onInput: (value: string) => void;
  readonly autocomplete?: "current-password" | "off";
  readonly min?: string | number;
  readonly max?: string | number;
  readonly step?: string | number;
  /** In characters. */
  readonly size?: number;
  /** The id of a list of suggestions. */
  readonly list?: string;
  /** When it is left, or a suggestion is chosen. */
  readonly onChange?: (value: string) => void;
};

export const TextInput = ({ onInput, onChange, ...rest }: InputProps) => (
  <input
    type="text"
    autocomplete="off"
    spellcheck={false}
    {...(rest as object)}
    onInput={(event) => onInput(event.currentTarget.value)}
    onChange={(event) => onChange?.(event.currentTarget.value)}
  />
);

type AreaProps = Attributes & {
  readonly value: string;
  readonly onInput: (value: string) => void;
  readonly rows?: number;
  /** Whether Ctrl and Enter, or Command and Enter, send its form. */
  readonly sends?: boolean;
};

export const TextArea = ({ onInput, sends = false, ...rest }: AreaProps) => (
  <textarea
    {...rest}
    onInput={(event) => onInput(event.currentTarget.value)}
    onKeyDown={(event) => {
      if (!sends || event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      event.currentTarget.form?.requestSubmit();
    }}
  />
);

type SelectProps = Attributes & {
  readonly value: string;
  readonly options: readonly (string | { readonly value: string; readonly title: string })[];
  readonly onChange: (value: string) => void;
};

export function Select({ value, options, onChange, ...rest }: SelectProps) {
  return (
    <select {...rest} value={value} onChange={(event) => onChange(event.currentTarget.value)}>
      {options.map((option) => {
        const { value: own, title } = typeof option === "string" ? { value: option, title: option } : option;
        return (
          <option key={own} value={own}>
            {title}
          </option>
        );
      })}
    </select>
  );
}

export function Check({
  label,
  checked,
  onChange,
  disabled,
}: {
  readonly label: string;
  readonly checked: boolean;
  readonly onChange: (checked: boolean) => void;
  readonly disabled?: boolean;
}) {
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={checked}
        disabled={disabled}
        onChange={(event) => onChange(event.currentTarget.checked)}
      />
      {label}
    </label>
  );
}

type DialogProps = {
  readonly title: string;
  /** Whether it stands without its title, which is said alone. */
  readonly isBare?: boolean;
  readonly open: boolean;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
};

/** A modal dialog: Escape closes it, and the focus goes back to where it was. */
export function Dialog({ title, isBare = false, open, onClose, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  // At once: a key pressed next is the dialog's, and the focus goes back to what opened it.
  useLayoutEffect(() => {
    if (open) dialog.current?.showModal();
    else dialog.current?.close();
  }, [open]);
  return (
    <dialog
      ref={dialog}
      {...(isBare ? { "aria-label": title } : { "aria-labelledby": id })}
      // The event comes later than the closing: once the page has closed it, or opened it for something else, it says nothing new.
      onClose={(event) => open && !event.currentTarget.open && onClose()}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
    >
      {open && (
        <>
          {!isBare && (
            <header>
              <h2 id={id}>{title}</h2>
              <Button onClick={onClose} label="Close">
                ✕
              </Button>
            </header>
          )}
          {children}
        </>
      )}
    </dialog>
  );
}
