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
    if (description.paths?.["/api/v1/explain"]) calls.set("explain");
    for (const [path, methods] of Object.entries(description.paths ?? {})) {
        if (!methods.post || !path.startsWith("/api/v1/")) continue;
        const content = part(methods.post.requestBody)?.content;
        const schema = part(content?.["application/json"]?.schema)?.properties ?? {};
        const flag = Object.keys(schema).find((name) => schema[name].type === "boolean");
        calls.set(path.slice("/api/v1/".length), flag);
    }
    $("limit").addEventListener("submit", (event) => {
        event.preventDefault();
        const rate = $("limit-rate").value.trim();
        if (rate) limitTo(rate);
    });
    $("limit-off").addEventListener("click", () => limitTo("off"));
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

// Whether a program has a file open, or one in a folder. The daemon is asked: what the page shows may be a second old.
async function isOpen(path) {
    const answer = await fetch("/api/v1/status").catch(() => undefined);
    const volume = answer?.ok ? (await answer.json()).volume : undefined;
    // Without an answer the person decides.
    return !volume || volume.files.some((file) => file.openHandles > 0 &&
        (!path || file.path === path || file.path.startsWith(path + "/")));
}

// Asks before an open file loses what it has.
function isSure(path) {
    const dialog = $("sure");
    dialog.returnValue = "no";
    set($("sure-title"), "Evict " + nameOf(path) + "?");
    dialog.showModal();
    return new Promise((done) => {
        dialog.addEventListener("close", () => done(dialog.returnValue === "ok"), { once: true });
    });
}

// Makes a call, says how it went, and asks for the token if one is needed. Returns whether it was done.
// What it is called for is the path of its body, unless `what` says it.
async function call(name, body, button, what = body.path === undefined ? "" : nameOf(body.path)) {
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
        const begin = label + (what && " " + what);
        // What is fetched is shown as it comes.
        const done = name === "prefetch" ? ": begun." : ": done.";
        tell(answer.ok ? begin + done : begin + ": " + (told || "refused (" + answer.status + ")"));
        if (answer.ok) loadFolder();
        return answer.ok;
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

async function limitTo(rate) {
    const button = rate === "off" ? $("limit-off") : $("limit").querySelector("button");
    if (await call("limit-rate", { rate }, button, rate === "off" ? "" : rate)) $("limit-rate").value = "";
}

// `2M`, `off` or `08:00,2M 23:00,off`, in words.
function rateText(text) {
    const one = (rate) => {
        const shift = " KMG".indexOf(rate.slice(-1).toUpperCase());
        return rate === "off" ? "none" : speed(parseInt(rate, 10) * 1024 ** Math.max(0, shift));
    };
    const words = text.split(" ").map((word) => word.split(",")).sort();
    return words.map((word) => (word.length < 2 ? one(word[0]) : "from " + word[0] + " " + one(word[1]))).join(", ");
}

// The limit of the rate. A server that does not tell has no such call.
function showLimit({ limitRate }) {
    $("limit").hidden = !calls.has("limit-rate") || limitRate === undefined;
    if (limitRate === undefined) return;
    set($("limit-now"), rateText(limitRate));
    $("limit-off").hidden = limitRate === "off" && document.activeElement !== $("limit-off");
}

// The buttons of a file. One that changes its meaning stays where it is, so that it keeps the focus.
function showButtons(place, file) {
    // In a folder some files may be pinned, and others not.
    const both = [["pin", "Pin"], ["unpin", "Unpin"]];
    const pins = file.isDirectory ? both : [both[file.isPinned ? 1 : 0]];
    const wanted = [["prefetch", "Prefetch"], ...pins, ["evict", "Evict"], ["refresh", "Refresh"],
        ["explain", "Explain"]];
    const key = ([name]) => (name === "unpin" && !file.isDirectory ? "pin" : name);
    keep(place, wanted.filter(([name]) => calls.has(name)), key, () => {
        const button = make("button");
        button.type = "button";
        button.addEventListener("click", async () => {
            const name = button.dataset.call;
            if (name === "explain") return explain(file.path);
            if (name === "evict" && await isOpen(file.path) && !await isSure(file.path)) return;
            call(name, { path: file.path }, button);
        });
        return button;
    }, (button, [name, label]) => {
        button.dataset.call = name;
        set(button, label);
        const told = label + " " + nameOf(file.path);
        if (button.ariaLabel !== told) button.ariaLabel = told;
    });
}
