"use strict";
// The OpenAPI document as a page.

const kindOf = (schema) => schema.anyOf?.map(kindOf).filter((kind) => kind !== "null").join(" or ")
  ?? (schema.const !== undefined ? JSON.stringify(schema.const) : schema.enum?.map((value) => JSON.stringify(value)).join(", "))
  ?? (schema.type === "array" ? `list of ${kindOf(schema.items ?? {})}s` : schema.type ?? "");

function fields(schema) {
  const rows = Object.entries(schema.properties ?? {}).map(([name, field]) => element("tr", {},
    element("td", {}, element("code", {}, name)),
    element("td", { class: "quiet" }, kindOf(field) + (schema.required?.includes(name) ? "" : field.default ? `, default ${JSON.stringify(field.default)}` : ", optional")),
    element("td", {}, field.description ?? "")));
  return element("table", {}, ...rows);
}

function operation(method, path, told) {
  const content = told.requestBody?.content ?? {}, schema = content["application/json"]?.schema;
  const parts = [element("p", {}, told.description ?? "")];
  if (schema) {
    parts.push(fields(schema), element("p", { class: "quiet" }, `Body: ${Object.keys(content).join(", ")}`));
    const example = schema.examples?.[0] ?? { q: "Wo ist der Bahnhof?", source: "auto", target: "en" };
    if (path === "/detect") { delete example.source; delete example.target; }
    parts.push(element("pre", {}, `curl ${location.origin}${path} -H 'Content-Type: application/json' \\\n  -d '${JSON.stringify(example)}'`));
  } else parts.push(element("pre", {}, `curl ${location.origin}${path}`));
  parts.push(element("table", {}, ...Object.entries(told.responses).map(([status, answer]) =>
    element("tr", {}, element("td", {}, element("code", {}, status)), element("td", {}, answer.description)))));
  return element("details", {}, element("summary", {}, element("b", {}, method.toUpperCase()), element("code", {}, path),
    element("span", { class: "quiet" }, told.summary ?? "")), element("div", {}, ...parts));
}

async function begin() {
  const document_ = await (await fetch("openapi.json")).json(), groups = new Map();
  document.getElementById("version").textContent = document_.info.version;
  for (const [path, methods] of Object.entries(document_.paths)) {
    for (const [method, told] of Object.entries(methods)) {
      const tag = told.tags?.[0] ?? "";
      groups.set(tag, [...(groups.get(tag) ?? []), operation(method, path, told)]);
    }
  }
  for (const [tag, entries] of groups) {
    document.getElementById("docs").append(element("section", {}, element("h2", {}, tag), ...entries));
  }
}

begin();
