/**
 * Templates of every kind of mark, and what each language makes of them with the values of `vectorValues`: text, or null where it is refused.
 * The programs of the formats are asked the same in `programs.test.ts`.
 */

export const vectorValues = { name: "Ann", answer: "42", dir: "C" } as const;

export type TemplateVector = {
  readonly text: string;
  readonly handlebars: string | null;
  readonly mustache: string | null;
  /** Of Nunjucks too. */
  readonly jinja: string | null;
  /** `{{name}}` and nothing else. */
  readonly plain: string;
};

export const templateVectors: readonly TemplateVector[] = (
  [
    [
      'Answer as {"answer": {{answer}}} only.',
      'Answer as {"answer": 42} only.',
      'Answer as {"answer": 42} only.',
      'Answer as {"answer": 42} only.',
      'Answer as {"answer": 42} only.',
    ],
    [
      '{"a": {"answer": {{answer}} }}',
      '{"a": {"answer": 42 }}',
      '{"a": {"answer": 42 }}',
      '{"a": {"answer": 42 }}',
      '{"a": {"answer": 42 }}',
    ],
    ["{{{answer}}}", "42", "42", null, "{42}"],
    ["{{{answer}}", null, null, null, "{42"],
    ["{ {{answer}} }", "{ 42 }", "{ 42 }", "{ 42 }", "{ 42 }"],
    ["{{ {answer} }}", null, null, null, "{{ {answer} }}"],
    ["C:\\{{dir}}", "C:{{dir}}", "C:\\C", "C:\\C", "C:\\C"],
    ["a \\\\{{name}}", "a \\Ann", "a \\\\Ann", "a \\\\Ann", "a \\\\Ann"],
    ["a \\\\\\{{name}}", "a \\\\Ann", "a \\\\\\Ann", "a \\\\\\Ann", "a \\\\\\Ann"],
    ["\\{{name}} and {{name}}", "{{name}} and Ann", "\\Ann and Ann", "\\Ann and Ann", "\\Ann and Ann"],
    [
      "a \\{{name}} b \\{{dir}} c {{name}}",
      "a {{name}} b {{dir}} c Ann",
      "a \\Ann b \\C c Ann",
      "a \\Ann b \\C c Ann",
      "a \\Ann b \\C c Ann",
    ],
    ["a {{~name~}} b", "aAnnb", null, null, "a {{~name~}} b"],
    ["a {{-name-}} b", null, null, "aAnnb", "a {{-name-}} b"],
    ["a {{- name -}} b", null, null, "aAnnb", "a {{- name -}} b"],
    ["one\n{{~name}}\ntwo", "oneAnn\ntwo", null, null, "one\n{{~name}}\ntwo"],
    ["one\n{{- name }}\ntwo", null, null, "oneAnn\ntwo", "one\n{{- name }}\ntwo"],
    ["a {# hidden #} b", "a {# hidden #} b", "a {# hidden #} b", "a  b", "a {# hidden #} b"],
    ["a {#- hidden -#} b", "a {#- hidden -#} b", "a {#- hidden -#} b", "ab", "a {#- hidden -#} b"],
    ["{#1} {{name}}", "{#1} Ann", "{#1} Ann", null, "{#1} Ann"],
    ["a\n  {{! c }}  \nb", "a\nb", "a\nb", null, "a\n  {{! c }}  \nb"],
    ["a {{! c }} b", "a  b", "a  b", null, "a {{! c }} b"],
    ["{{!-- a }} b --}}c", "c", " b --}}c", null, "{{!-- a }} b --}}c"],
    ["{{! {{name}} }}c", " }}c", " }}c", null, "{{! Ann }}c"],
    ["{{~! c ~}}  d", "d", null, null, "{{~! c ~}}  d"],
    ["  {{! c }}", "", "", null, "  {{! c }}"],
    ["{{! a }} {{! b }}\nz", " \nz", " \nz", null, "{{! a }} {{! b }}\nz"],
    ["{{name}}\n{{! c }}\n{{name}}\n", "Ann\nAnn\n", "Ann\nAnn\n", null, "Ann\n{{! c }}\nAnn\n"],
    ["{{ name }}{{name }}{{ name}}", "AnnAnnAnn", "AnnAnnAnn", "AnnAnnAnn", "AnnAnnAnn"],
    ["{{\tname\n}}", "Ann", "Ann", "Ann", "{{\tname\n}}"],
    ["{{&name}}", "Ann", "Ann", null, "{{&name}}"],
    ["{{& name }}", "Ann", "Ann", null, "{{& name }}"],
    ["{{{ name }}}", "Ann", "Ann", null, "{Ann}"],
    ["{ {{{name}}} }", "{ Ann }", "{ Ann }", null, "{ {Ann} }"],
    ['{{"{{"}}name', null, null, "{{name", '{{"{{"}}name'],
    ["{{ 'a \"b\"' }}", null, null, 'a "b"', "{{ 'a \"b\"' }}"],
    ['{{ "a\\nb" }}', null, null, "a\nb", '{{ "a\\nb" }}'],
    [
      "{% raw %}{{name}}{% endraw %}",
      "{% raw %}Ann{% endraw %}",
      "{% raw %}Ann{% endraw %}",
      "{{name}}",
      "{% raw %}Ann{% endraw %}",
    ],
    [
      "a {%- raw -%} {{x}} {%- endraw -%} b",
      "a {%- raw -%}  {%- endraw -%} b",
      "a {%- raw -%}  {%- endraw -%} b",
      "a{{x}}b",
      "a {%- raw -%}  {%- endraw -%} b",
    ],
    [
      "{% if name %}a{% endif %}",
      "{% if name %}a{% endif %}",
      "{% if name %}a{% endif %}",
      null,
      "{% if name %}a{% endif %}",
    ],
    ["{{#if name}}a{{/if}}", null, null, null, "{{#if name}}a{{/if}}"],
    ["{{#name}}a{{/name}}", null, null, null, "{{#name}}a{{/name}}"],
    ["{{^name}}a{{/name}}", null, null, null, "{{^name}}a{{/name}}"],
    ["{{name | upper}}", null, null, null, "{{name | upper}}"],
    ["{{name.first}}", null, null, null, "{{name.first}}"],
    ["{{this.name}}", "Ann", null, null, "{{this.name}}"],
    ["{{elsewhere}}", "", "", "", ""],
    ["{{else}}", null, "", null, ""],
    ["{{true}}", null, "", null, ""],
    ["{{a-b}}", null, null, null, "{{a-b}}"],
    ["{{> part}}", null, null, null, "{{> part}}"],
    ["{{=<% %>=}}<% name %>", null, null, null, "{{=<% %>=}}<% name %>"],
    ["{{name", null, null, null, "{{name"],
    ["}} {{name}} }}", "}} Ann }}", "}} Ann }}", "}} Ann }}", "}} Ann }}"],
    ["{{", null, null, null, "{{"],
    ["{#", "{#", "{#", null, "{#"],
    ["a { b } c", "a { b } c", "a { b } c", "a { b } c", "a { b } c"],
    ["{{name}}}", "Ann}", "Ann}", "Ann}", "Ann}"],
    ["{{name}}}}", "Ann}}", "Ann}}", "Ann}}", "Ann}}"],
    ["{{x~}}}", "}", null, null, "{{x~}}}"],
    ["{{~{name}~}} b", "Annb", null, null, "{{~{name}~}} b"],
    [
      "$100 {name} ${name} <%= name %>",
      "$100 {name} ${name} <%= name %>",
      "$100 {name} ${name} <%= name %>",
      "$100 {name} ${name} <%= name %>",
      "$100 {name} ${name} <%= name %>",
    ],
    ["{{name}}\\", "Ann\\", "Ann\\", "Ann\\", "Ann\\"],
    ["{{}}", null, null, null, "{{}}"],
    ["{{json name}}", null, null, null, "{{json name}}"],
    ['{{role "user"}}', null, null, null, '{{role "user"}}'],
    ["\\\\{{! c }}\\{{name}}", "\\{{name}}", "\\\\\\Ann", null, "\\\\{{! c }}\\Ann"],
    ["{{name}}\n", "Ann\n", "Ann\n", "Ann\n", "Ann\n"],
    ["\n\n{{name}}", "\n\nAnn", "\n\nAnn", "\n\nAnn", "\n\nAnn"],
    ["{{ name\n}}", "Ann", "Ann", "Ann", "{{ name\n}}"],
  ] as const
).map(([text, handlebars, mustache, jinja, plain]) => ({ text, handlebars, mustache, jinja, plain }));
