// A card for each open file.

const words = { "#": "cached", "+": "in part", ">": "coming", ".": "missing" };

// Seconds of film for a number of bytes, if the film tells its duration or a rate is known.
function seconds(file, bytes) {
    if (file.seconds > 0 && file.length > 0) return bytes / file.length * file.seconds;
    return file.neededRate > 0 ? bytes / file.neededRate : undefined;
}

const reader = (file) => (file.readers ?? []).find((one) => one.isPlayer) ?? (file.readers ?? [])[0];

// What the verdict says of a film, "stands for 8 s" for one; it names the worst alone.
function judgedOf(file, verdict) {
    if (verdict?.path !== file.path) return undefined;
    return verdict.sentence.slice(nameOf(file.path).length + 1).split(":")[0];
}

function stateOf(file, verdict) {
    const judged = judgedOf(file, verdict);
    if (judged) return ["bad", judged];
    if (file.waiting > 0 && verdict?.word === "stands") return ["waits", "waits " + milliseconds(file.waiting)];
    if (file.isPlayed) return ["plays", "playing"];
    return file.rate > 0 ? ["reads", "being read"] : ["open", "open"];
}

function cardOf() {
    const card = make("li"), title = make("div", "title"), place = make("div", "place");
    title.append(make("h3", "name"), make("span", "state"));
    place.append(make("b"), make("span", "ahead"));
    const map = make("div", "map");
    map.setAttribute("role", "img");
    card.append(title, make("p", "folder"), place, map, make("dl"), make("p", "buttons"));
    return card;
}

// How far the program has read. A player that buffers shows an earlier picture, of which nothing is known.
function placeText(file, at) {
    if (!at) return "";
    const now = seconds(file, at.position), all = file.length && seconds(file, file.length);
    if (now === undefined) return "read up to " + size(at.position) + (file.length ? " of " + size(file.length) : "");
    const about = file.seconds > 0 ? "" : "about ";
    return "read up to " + about + clock(now) + (all ? " of " + clock(all) : "");
}

function aheadText(file, at) {
    if (!at) return "";
    if (file.length && at.position + at.ahead >= file.length) return "cached to its end";
    const time = seconds(file, at.ahead);
    return (time === undefined ? size(at.ahead) : span(time)) + " ahead";
}

function showMap(map, file) {
    map.hidden = !file.map;
    if (!file.map) return;
    while (map.querySelectorAll("i").length < file.map.length) map.prepend(make("i"));
    const cells = map.querySelectorAll("i"), count = {};
    [...file.map].forEach((state, index) => {
        count[state] = (count[state] ?? 0) + 1;
        if (cells[index].dataset.c !== state) cells[index].dataset.c = state;
    });
    const readers = file.readers ?? [];
    while (map.querySelectorAll("b").length < readers.length) map.append(make("b"));
    map.querySelectorAll("b").forEach((mark, index) => {
        mark.hidden = index >= readers.length;
        if (mark.hidden) return;
        mark.style.left = 100 * readers[index].position / file.length + "%";
        mark.dataset.p = readers[index].isPlayer ? "yes" : "no";
    });
    const parts = Object.keys(words).filter((state) => count[state]);
    map.setAttribute("aria-label", "Map of the file: " + parts.map((state) =>
        Math.round(100 * count[state] / file.map.length) + " % " + words[state]).join(", ") +
        readers.map((one) => ", a reader at " + percent(one.position, file.length)).join(""));
}

function stallText(file) {
    const stall = file.lastStall;
    if (!stall) return "none";
    return milliseconds(stall.milliseconds) + " by the " + stall.fault + ", " + since(stall.when);
}

function updateCard(card, file, { verdict, isOffline }) {
    const at = reader(file), [kind, text] = stateOf(file, verdict);
    set(card.querySelector(".name"), nameOf(file.path));
    set(card.querySelector(".folder"), folderOf(file.path));
    set(card.querySelector(".state"), (file.program ? file.program + " · " : "") + text);
    card.querySelector(".state").dataset.s = kind;
    set(card.querySelector(".place b"), placeText(file, at));
    set(card.querySelector(".ahead"), aheadText(file, at));
    showMap(card.querySelector(".map"), file);
    facts(card.querySelector("dl"), [
        ["Reads", at?.rate !== undefined ? speed(at.rate) : ""],
        ["Film needs", file.neededRate !== undefined ? speed(file.neededRate) : ""],
        ["Comes at", isOffline ? "" : speed(file.rate)],
        ["Cached", size(file.cachedBytes) + (file.length ? ", " + percent(file.cachedBytes, file.length) : "")],
        ["Last stall", stallText(file)],
    ]);
    showButtons(card.querySelector(".buttons"), file);
}

function showPlaying(volume) {
    const open = volume.files.filter((file) => file.openHandles > 0);
    open.sort((one, other) => (other.isPlayed ? 1 : 0) - (one.isPlayed ? 1 : 0));
    keep($("playing"), open, (file) => file.path, cardOf, (card, file) => updateCard(card, file, volume));
}
