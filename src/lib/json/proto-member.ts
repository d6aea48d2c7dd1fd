/**
 * Makes `__proto__` a member like any other on plain objects: imported first by what handles objects whose names others chose.
 *
 * By the language, `copy[name] = value` with this name sets the prototype of `copy`, whose members then act as defaults, or drops the
 * value in silence; `Object.assign` does the same. Bodies of callers and upstreams may hold it (`JSON.parse` keeps it), and copying
 * them by assignment is what much code does, libraries' too. On all but plain objects the accessor stays what it was, as Bun's
 * node:events reads it there. Deno removes it altogether, Node with --disable-proto=delete.
 */
const { defineProperty, getPrototypeOf, getOwnPropertyDescriptor, prototype } = Object;
const before = getOwnPropertyDescriptor(prototype, "__proto__");
const isPlain = (value: unknown) => value != null && getPrototypeOf(value) === prototype;

// Once: another import would find what is set here, which no longer can be changed.
if (before?.configurable === true) {
  defineProperty(prototype, "__proto__", {
    get(this: unknown): unknown {
      return isPlain(this) ? undefined : before.get!.call(this);
    },
    set(this: unknown, value: unknown) {
      if (!isPlain(this)) before.set!.call(this, value);
      else defineProperty(this, "__proto__", { value, writable: true, enumerable: true, configurable: true });
    },
    enumerable: false,
    configurable: false, // or a write to Object.prototype itself would replace it for all
  });
}

export {};
