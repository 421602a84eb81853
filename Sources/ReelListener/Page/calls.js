// Buttons: what the server lets people change.

const token = {
    get: () => sessionStorage.getItem("reelfs-token"),
    set: (text) => sessionStorage.setItem("reelfs-token", text),
};
// `#token=…` brings it, and does not stay in the address.
const given = new URLSearchParams(location.hash.slice(1)).get("token");
if (given) {
    token.set(given);
    history.replaceState(null, "", location.pathname);
}

// The calls that this server has, by its own description, each with the parameter that is true or false.
const calls = new Map();
async function learnCalls() {
    const answer = await fetch("/api/v1/openapi.json").catch(() => undefined);
    if (!answer?.ok) return;
    const description = await answer.json().catch(() => ({}));
    // A part of the description, or what its reference names (`#/components/…`).
    const part = (value) => value?.$ref?.split("/").slice(1).reduce((whole, name) => whole?.[name], description) ?? value;
    for (const [path, methods] of Object.entries(description.paths ?? {})) {
        if (!methods.post || !path.startsWith("/api/v1/")) continue;
        const content = part(methods.post.requestBody)?.content;
        const schema = part(content?.["application/json"]?.schema)?.properties ?? {};
        const flag = Object.keys(schema).find((name) => schema[name].type === "boolean");
        calls.set(path.slice("/api/v1/".length), flag);
    }
    $("offline").addEventListener("click", () => {
        const isOffline = $("offline").ariaPressed === "true";
        call("offline", { [calls.get("offline")]: !isOffline }, $("offline"));
    });
}

// Asks for the token. Returns false where the person gives none.
function askToken() {
    const dialog = $("token"), text = $("token-text");
    text.value = "";
    dialog.returnValue = "no";
    dialog.showModal();
    return new Promise((done) => dialog.addEventListener("close", () => {
        if (dialog.returnValue === "ok" && text.value) token.set(text.value.trim());
        done(dialog.returnValue === "ok" && text.value !== "");
    }, { once: true }));
}

async function post(name, body) {
    const headers = { "Content-Type": "application/json" };
    if (token.get()) headers.Authorization = "Bearer " + token.get();
    return fetch("/api/v1/" + name, { method: "POST", headers, body: JSON.stringify(body) });
}

// Makes a call, says how it went, and asks for the token if one is needed.
async function call(name, body, button) {
    // A button that is disabled would lose the focus.
    if (button.ariaDisabled === "true") return;
    const label = button.textContent;
    button.ariaDisabled = "true";
    try {
        let answer = await post(name, body);
        while (answer.status === 401 && await askToken()) answer = await post(name, body);
        const text = (await answer.text()).trim();
        let told = text;
        try {
            const value = JSON.parse(text);
            told = value.error ?? "";
        } catch { /* A sentence. */ }
        const what = label + (body.path === undefined ? "" : " " + nameOf(body.path));
        tell(answer.ok ? what + ": done." : what + ": " + (told || "refused (" + answer.status + ")"));
    } catch {
        tell(label + ": the server does not answer.");
    } finally {
        button.ariaDisabled = null;
    }
}

// Whether nothing is asked for, by command. A server that does not tell has no such call.
function showOffline(volume) {
    $("offline").hidden = !calls.get("offline") || volume.isOffline === undefined;
    $("offline").ariaPressed = volume.isOffline ? "true" : "false";
}

// The buttons of a file. One that changes its meaning stays where it is, so that it keeps the focus.
function showButtons(place, file) {
    const pin = file.isPinned ? ["unpin", "Unpin"] : ["pin", "Pin"];
    const wanted = [["prefetch", "Prefetch"], pin, ["evict", "Evict"], ["refresh", "Refresh"]];
    keep(place, wanted.filter(([name]) => calls.has(name)), ([name]) => (name === "unpin" ? "pin" : name), () => {
        const button = make("button");
        button.type = "button";
        button.addEventListener("click", () => call(button.dataset.call, { path: file.path }, button));
        return button;
    }, (button, [name, label]) => {
        button.dataset.call = name;
        set(button, label);
        const told = label + " " + nameOf(file.path);
        if (button.ariaLabel !== told) button.ariaLabel = told;
    });
}
