// Calls to the HTTP API. Every call carries the CSRF token of this login; a refusal is thrown as its problem document,
// which has `detail` and `problems`.
const csrf = document.querySelector("meta[name=csrf]")?.content || "";

export const call = async (method, path, body) => {
  const headers = { "x-warpyard-csrf": csrf };
  if (body !== undefined) headers["content-type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    throw { detail: "the server cannot be reached, so nothing was changed", problems: [] };
  }
  if (response.status === 401) {
    location.reload();
    throw { detail: "log in again", problems: [] };
  }
  const type = response.headers.get("content-type") || "";
  const content = type.includes("json") ? await response.json() : await response.text();
  if (!response.ok) throw content.detail ? content : { detail: String(content).slice(0, 300), problems: [] };
  return content;
};

// The problems of a refusal; at least one, so that there is always something to show.
export const problemsOf = (error) =>
  (error.problems?.length ? error.problems : [{ path: "", message: error.detail || String(error) }]);

// A random identifier of 128 bits, also where `crypto.randomUUID` is missing because the page came unencrypted.
export const randomId = () =>
  [...crypto.getRandomValues(new Uint32Array(4))].map((n) => n.toString(16).padStart(8, "0")).join("");
