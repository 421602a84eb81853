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
        "The disk takes nothing: " + volume.cacheFailure + " " + size(volume.bytesInMemory) + " in memory." : "");
    keep($("leaving"), volume.leaving ?? [], (file) => file.path, () => rowOf("what", "more"), (row, file) => {
        set(row.querySelector(".what"), file.path);
        set(row.querySelector(".more"), size(file.bytes) + ", used " + since(file.lastUse));
    });
}

function showOrigins(volume) {
    keep($("origins"), volume.origins ?? [], (one) => one.origin, () => rowOf("dot", "what", "more"), (row, one) => {
        row.dataset.state = one.health;
        set(row.querySelector(".what"), one.origin);
        const parts = [one.health === "well" ? "" : one.health, one.firstByte === undefined ? "" :
            "first byte " + milliseconds(one.firstByte), speed(one.rate), size(one.bytes),
            one.failed ? one.failed + " of " + one.requests + " requests failed" : ""];
        set(row.querySelector(".more"), parts.filter((part) => part).join(" · "));
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
        set(row.querySelector(".more"), size(file.cachedBytes) + (file.length ?
            " of " + size(file.length) + ", " + percent(file.cachedBytes, file.length) : "") +
            (file.isPinned ? ", pinned" : ""));
        showButtons(row.querySelector(".buttons"), file);
    });
}

// What people want to hear of at once; numbers change in silence.
let heard = { waits: "", away: "" };
function tellNews(volume) {
    const waits = volume.files.filter((file) => file.waiting >= 1000).map((file) => nameOf(file.path)).join(", ");
    const away = volume.outages.map((one) => one.origin + " (" + one.kind + ")").join(", ");
    if (waits && waits !== heard.waits) tell("Waiting for bytes: " + waits);
    else if (!waits && heard.waits) tell("It goes on: " + heard.waits);
    if (away !== heard.away) tell(away ? "Away: " + away + ". What is cached can be read." : "All origins answer again.");
    heard = { waits, away };
}

function show(status) {
    const volume = status.volume;
    if (!volume) return;
    set($("mount"), status.source + (status.mountpoint.startsWith("/") ? " on " + status.mountpoint : ""));
    document.title = nameOf(status.mountpoint) + " – reelfs";
    showPlaying(volume.files);
    showLine(volume, status.past);
    showCache(volume);
    showOrigins(volume);
    showPrograms(volume);
    showTotals(volume);
    showFiles(volume);
    showOffline(volume);
    tellNews(volume);
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
        link("live", "live");
        show(JSON.parse(event.data));
    };
    source.onerror = () => {
        link("lost", "connection lost");
        // A refused request is not tried again by itself.
        if (source.readyState === EventSource.CLOSED) setTimeout(listen, 5000);
    };
}
document.addEventListener("visibilitychange", listen);
learnCalls().finally(listen);
