// Folders and search, asked for while they are open; and why a file was fetched.

const place = { path: "", match: "" };
let asked = 0;

async function query(name, parameters) {
    const answer = await fetch("/api/v1/" + name + "?" + new URLSearchParams(parameters)).catch(() => undefined);
    const told = await answer?.json().catch(() => undefined);
    return told ?? { error: "The server does not answer." };
}

async function loadFolder() {
    if (!$("browse").open) return;
    const mine = asked += 1;
    const told = await query("files", place);
    // A later question is under way.
    if (mine === asked) showFolder(told);
}

function go(path) {
    place.path = path;
    place.match = $("match").value = "";
    loadFolder();
}

function showFolder({ entries = [], isCut, unlistedDirectories, error }) {
    const names = place.path ? place.path.split("/") : [];
    const paths = ["", ...names.map((_, index) => names.slice(0, index + 1).join("/"))];
    keep($("crumbs"), paths, (path) => path, (path) => folderButton(path, nameOf(path)), () => {});
    keep($("found"), entries, (entry) => entry.path, (entry) => {
        const row = rowOf("what", "meter", "more");
        const below = place.path ? entry.path.slice(place.path.length + 1) : entry.path;
        if (entry.isDirectory) row.querySelector(".what").append(folderButton(entry.path, below + "/"));
        else set(row.querySelector(".what"), below);
        row.querySelector(".meter").hidden = entry.isDirectory;
        row.append(make("p", "buttons"));
        return row;
    }, (row, entry) => {
        fill(row.querySelector(".meter"), entry.cachedBytes ?? 0, entry.length ?? 0);
        set(row.querySelector(".more"), entry.isDirectory ? "" : cachedText(entry));
        showButtons(row.querySelector(".buttons"), entry);
    });
    set($("found-note"), [error, isCut ? "There is more: search for a part of the name." : "", unlistedDirectories ?
        "Not listed yet: " + unlistedDirectories + (unlistedDirectories > 1 ? " folders." : " folder.") : ""]
        .filter((text) => text).join(" "));
}

function folderButton(path, text) {
    const button = make("button", "folder-name", text);
    button.type = "button";
    button.addEventListener("click", () => go(path));
    return button;
}

const timeOf = (record) => new Date(record.when).toLocaleTimeString();
const fileOf = (record) => {
    try { return nameOf(decodeURIComponent(new URL(record.file).pathname.replace(/\/$/, ""))); } catch {
        return record.file;
    }
};

function recordText(record) {
    return [record.why, record.program, record.status, size(record.bytes), milliseconds(record.milliseconds),
        record.failure ? "failed: " + record.failure : ""].filter((part) => part).join(" · ");
}

function showRecords(list, records, text) {
    keep(list, records, (record) => JSON.stringify(record), (record) => {
        const row = rowOf("more", "what");
        set(row.querySelector(".more"), timeOf(record));
        set(row.querySelector(".what"), text(record));
        return row;
    }, () => {});
}

async function explain(path) {
    const told = await query("explain", { path });
    set($("why-title"), "Why " + nameOf(path) + " was fetched");
    const sums = (told.sums ?? []).map((sum) => size(sum.bytes) + " for " + sum.why +
        (sum.program ? " (" + sum.program + ")" : "") + (sum.failed ? ", " + sum.failed + " failed" : ""));
    set($("why-text"), told.error ?? (sums.join("; ") || "Nothing was fetched in the last hours."));
    showRecords($("why-list"), (told.requests ?? []).slice(-10).reverse(), recordText);
    $("why").showModal();
}

// The last failures, the newest first, each with the host that failed.
function showFailures(records) {
    $("failed").hidden = !records.length;
    showRecords($("failures"), [...records].reverse(), (record) => fileOf(record) + ": " + record.failure + " (" +
        [record.failure.includes(record.host) ? "" : record.host, record.why, record.program]
            .filter((part) => part).join(", ") + ")");
}

const states = { stands: "a film stands", stops: "a film will stop", refused: "refused", wrong: "answers wrong",
    away: "away", offline: "offline", disk: "its disk takes nothing", slow: "slow", well: "well" };

// The other mounts of the same user, each with the way to its own page.
async function loadOthers() {
    if (!$("others").open) return;
    const { mounts = [] } = await query("mounts", {});
    keep($("mounts"), mounts, (one) => one.mountpoint + " " + one.page, (one) => {
        const row = rowOf("dot", "what", "more");
        const name = make(one.page ? "a" : "span", "", one.mountpoint);
        if (one.page) name.href = one.page;
        row.querySelector(".what").append(name);
        return row;
    }, (row, one) => {
        row.dataset.state = one.word ?? "lost";
        set(row.querySelector(".more"), one.source + " · " + (states[one.word] ?? "its daemon does not answer"));
    });
}

$("others").addEventListener("toggle", loadOthers);
$("browse").addEventListener("toggle", loadFolder);
$("match").addEventListener("input", () => {
    place.match = $("match").value.trim();
    loadFolder();
});
