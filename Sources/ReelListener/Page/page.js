// All but the open files and the line, and the messages themselves.

function rowOf(...kinds) {
    const row = make("li");
    for (const kind of kinds) row.append(make(kind === "meter" ? "div" : "span", kind));
    if (row.querySelector(".meter")) row.querySelector(".meter").append(make("i"));
    row.querySelector(".dot")?.setAttribute("aria-hidden", "true");
    return row;
}

function fill(meter, part, whole) {
    meter.firstElementChild.style.width = (whole > 0 ? Math.min(100, 100 * part / whole) : 0) + "%";
}

function showCache(volume) {
    set($("cache-used"), size(volume.cacheUsed));
    set($("cache-cap"), "of " + size(volume.cacheCap) + (volume.isEncrypted ? ", encrypted" : ""));
    const meter = $("cache-meter");
    fill(meter, volume.cacheUsed, volume.cacheCap);
    meter.dataset.full = volume.cacheUsed > 0.97 * volume.cacheCap ? "yes" : "no";
    meter.setAttribute("aria-label", percent(volume.cacheUsed, volume.cacheCap) + " of the cache is in use");
    const trouble = $("cache-trouble");
    trouble.hidden = !volume.cacheFailure;
    set(trouble, volume.cacheFailure ?
        "The disk takes nothing: " + volume.cacheFailure + "; " + size(volume.bytesInMemory) + " in memory." : "");
    keep($("leaving"), volume.leaving ?? [], (file) => file.path, () => rowOf("what", "more"), (row, file) => {
        set(row.querySelector(".what"), file.path);
        set(row.querySelector(".more"), size(file.bytes) + ", used " + since(file.lastUse));
    });
}

function showOrigins(volume) {
    const { isOffline } = volume;
    keep($("origins"), volume.origins ?? [], (one) => one.origin, () => rowOf("dot", "what", "more"), (row, one) => {
        row.dataset.state = isOffline ? "offline" : one.health;
        set(row.querySelector(".what"), one.origin);
        const parts = [isOffline ? "not asked while offline" : one.health === "well" ? "" : one.health,
            isOffline || one.firstByte === undefined ? "" : "first byte " + milliseconds(one.firstByte),
            isOffline ? "" : speed(one.rate), size(one.bytes),
            one.failed ? one.failed + " of " + one.requests + " requests failed" : ""];
        set(row.querySelector(".more"), parts.filter((part) => part).join(" · "));
    });
}

function showVerdict(verdict) {
    if (!verdict) return;
    $("verdict").dataset.state = verdict.word;
    const text = verdict.sentence + (verdict.since === undefined ? "" : ", since " + span(Date.now() / 1000 - verdict.since));
    set($("verdict"), text.slice(0, 1).toUpperCase() + text.slice(1));
}

const keptPhases = { waiting: "waits", fetching: "", full: "no room", whole: "whole", finished: "read to its end",
    failed: "failed" };
function showKept(files) {
    $("keeping").hidden = !files.length;
    keep($("kept"), files, (file) => file.path, () => rowOf("what", "meter", "more"), (row, file) => {
        set(row.querySelector(".what"), file.path);
        fill(row.querySelector(".meter"), file.cachedBytes, file.length ?? 0);
        const bytes = size(file.cachedBytes) + (file.length === undefined ? "" : " of " + size(file.length));
        const parts = [keptPhases[file.phase], bytes, file.trouble ?? ""];
        set(row.querySelector(".more"), parts.filter((part) => part).join(" · "));
    });
}

const phases = { listing: "looks for files", fetching: "", waiting: "waits", done: "done", refused: "does not fit",
    failed: "failed", cancelled: "cancelled" };
const isRunning = (work) => ["listing", "fetching", "waiting"].includes(work.phase);
function showPrefetches(works) {
    $("prefetching").hidden = !works.length;
    keep($("prefetches"), works, (work) => work.number, () => {
        const row = rowOf("what", "meter", "more");
        row.append(make("p", "buttons"));
        return row;
    }, (row, work) => {
        const what = work.paths.map((path) => path || nameOf(path)).join(", ");
        set(row.querySelector(".what"), what);
        fill(row.querySelector(".meter"), work.doneBytes, work.bytes);
        const parts = [phases[work.phase], work.bytes ? size(work.doneBytes) + " of " + size(work.bytes) : "",
            work.phase === "fetching" && work.rate ? speed(work.rate) : "", work.error ?? "",
            work.failedFiles ? work.failedFiles + " of " + work.files + " files failed" : ""];
        set(row.querySelector(".more"), parts.filter((part) => part).join(" · "));
        const cancel = isRunning(work) && calls.has("cancel-prefetch") ? ["Cancel"] : [];
        keep(row.querySelector(".buttons"), cancel, (label) => label, (label) => {
            const button = make("button", "", label);
            button.type = "button";
            button.ariaLabel = "Cancel prefetch of " + what;
            button.addEventListener("click", () => call("cancel-prefetch", { number: work.number }, button, what));
            return button;
        }, () => {});
    });
}

function showPrograms(volume) {
    keep($("programs"), volume.programs ?? [], (one) => one.name, () => rowOf("what", "more"), (row, one) => {
        set(row.querySelector(".what"), one.name);
        set(row.querySelector(".more"), size(one.readBytes) + " read · " + size(one.fetchedBytes) + " fetched");
    });
}

function showTotals(volume) {
    const reads = volume.hits + volume.misses, stalls = volume.stalls ?? {};
    const all = faults.reduce((sum, fault) => sum + (stalls[fault] ?? 0), 0);
    facts($("totals"), [
        ["From origins", size(volume.bytesFromOrigin)],
        ["To readers", size(volume.bytesServed)],
        ["Reads from the cache", reads ? percent(volume.hits, reads) : ""],
        ["Fetched ahead", size(volume.speculative)],
        ["Of it wasted", size(volume.wasted)],
        ["Stalls", all ? faults.filter((fault) => stalls[fault]).map((fault) =>
            stalls[fault] + " " + fault).join(", ") : "none"],
        ["Stale folders", volume.staleDirectories.length ? String(volume.staleDirectories.length) : ""],
    ]);
}

function cachedText(file) {
    return size(file.cachedBytes) + (file.length ? " of " + size(file.length) + ", " +
        percent(file.cachedBytes, file.length) : "") + (file.isPinned ? ", pinned" : "");
}

function showFiles(volume) {
    const closed = volume.files.filter((file) => file.openHandles === 0);
    set($("files-count"), closed.length ? String(closed.length) : "");
    keep($("files"), closed, (file) => file.path, () => {
        const row = rowOf("what", "meter", "more");
        row.append(make("p", "buttons"));
        return row;
    }, (row, file) => {
        set(row.querySelector(".what"), file.path);
        fill(row.querySelector(".meter"), file.cachedBytes, file.length ?? 0);
        set(row.querySelector(".more"), cachedText(file));
        showButtons(row.querySelector(".buttons"), file);
    });
}

// What people want to hear of at once; numbers change in silence.
let heard = { waits: "", away: "" };
function tellNews(volume) {
    const { verdict } = volume;
    const isWaiting = (file) => verdict?.word === "stands" && judgedOf(file, verdict);
    const waits = volume.files.filter(isWaiting).map((file) => nameOf(file.path)).join(", ");
    const away = volume.outages.map((one) => one.origin + " (" + one.kind + ")").join(", ");
    if (waits && waits !== heard.waits) tell("Waiting for bytes: " + waits);
    else if (!waits && heard.waits) tell("It goes on: " + heard.waits);
    if (away !== heard.away) tell(away ? "Away: " + away + ". What is cached can be read." : "All origins answer again.");
    heard = { waits, away };
}

let messages = 0;
function show(status) {
    const volume = status.volume;
    if (!volume) return;
    set($("mount"), status.source + (status.mountpoint.startsWith("/") ? " on " + status.mountpoint : ""));
    document.title = nameOf(status.mountpoint) + " – reelfs";
    showVerdict(volume.verdict);
    showPlaying(volume);
    showPrefetches(volume.prefetches ?? []);
    showKept(volume.kept ?? []);
    showLine(volume, status.past);
    showCache(volume);
    showOrigins(volume);
    showPrograms(volume);
    showTotals(volume);
    showFiles(volume);
    showOffline(volume);
    showLimit(volume);
    showFailures(status.failures ?? []);
    set($("token-file"), status.tokenFile ?? "listen.token");
    tellNews(volume);
    // Each second would be more than a person notices.
    if ((messages += 1) % 5 === 0) {
        loadFolder();
        loadOthers();
    }
}

function link(state, text) {
    if ($("link").dataset.state === state) return;
    if (state === "lost") tell("The connection to reelfs is lost. The page tries again.");
    if ($("link").dataset.state === "lost") tell("The connection is back.");
    $("link").dataset.state = state;
    set($("link-text"), text);
}

// A page that is not looked at asks for nothing.
let source;
function listen() {
    source?.close();
    source = undefined;
    if (document.hidden) return;
    source = new EventSource("/api/v1/events");
    source.onmessage = (event) => {
        const status = JSON.parse(event.data);
        if (status.volume?.isOffline) link("offline", "offline: nothing is asked for");
        else link("live", "live");
        show(status);
    };
    source.onerror = () => {
        link("lost", "connection lost");
        // A refused request is not tried again by itself.
        if (source.readyState === EventSource.CLOSED) setTimeout(listen, 5000);
    };
}
document.addEventListener("visibilitychange", listen);
learnCalls().finally(listen);
