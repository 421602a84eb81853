"use strict";
// Numbers and times as people read them, and the few tools for the document. Texts get into it as text alone.

const $ = (id) => document.getElementById(id);
const units = ["KiB", "MiB", "GiB", "TiB", "PiB"];

function size(bytes) {
    if (bytes < 1024) return bytes + " B";
    let value = bytes, unit = -1;
    while (value >= 1024 && unit < units.length - 1) { value /= 1024; unit += 1; }
    return value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0) + " " + units[unit];
}

const speed = (bytes) => size(Math.max(0, Math.round(bytes))) + "/s";
const percent = (part, whole) => (whole > 0 ? Math.floor(100 * part / whole) : 100) + " %";

// `1:42:07`
function clock(seconds) {
    const all = Math.max(0, Math.floor(seconds)), two = (n) => String(n).padStart(2, "0");
    const hours = Math.floor(all / 3600), minutes = Math.floor(all / 60) % 60;
    return (hours ? hours + ":" + two(minutes) : String(minutes)) + ":" + two(all % 60);
}

// `8 min`
function span(seconds) {
    if (seconds < 90) return Math.round(seconds) + " s";
    if (seconds < 5400) return Math.round(seconds / 60) + " min";
    if (seconds < 172800) return Math.round(seconds / 3600) + " h";
    return Math.round(seconds / 86400) + " days";
}

const milliseconds = (time) => (time < 1000 ? time + " ms" : (time / 1000).toFixed(1) + " s");
const since = (moment) => span(Math.max(0, Date.now() / 1000 - moment)) + " ago";
const nameOf = (path) => path.slice(path.lastIndexOf("/") + 1) || "all files";
const folderOf = (path) => path.slice(0, Math.max(0, path.lastIndexOf("/")));

function set(element, text) {
    if (element.textContent !== text) element.textContent = text;
}

function make(tag, kind, text) {
    const element = document.createElement(tag);
    if (kind) element.className = kind;
    if (text !== undefined) element.textContent = text;
    return element;
}

// Shows a child of `list` for each item. A child stays with its key, so that the focus stays where it is.
function keep(list, items, key, create, update) {
    const known = list.known ??= new Map(), used = new Set();
    let place = list.firstElementChild;
    for (const item of items) {
        const name = key(item);
        if (used.has(name)) continue;
        used.add(name);
        if (!known.has(name)) known.set(name, create(item));
        const child = known.get(name);
        if (child === place) place = place.nextElementSibling;
        else list.insertBefore(child, place);
        update(child, item);
    }
    for (const [name, child] of known) {
        if (used.has(name)) continue;
        child.remove();
        known.delete(name);
    }
    const none = $(list.id + "-none");
    if (none) none.hidden = used.size > 0;
}

// Shows facts as pairs of a name and a text; those without a text are left out.
function facts(list, pairs) {
    keep(list, pairs.filter((pair) => pair[1]), (pair) => pair[0], (pair) => {
        const group = make("div");
        group.append(make("dt", "", pair[0]), make("dd"));
        return group;
    }, (group, pair) => set(group.lastChild, pair[1]));
}

// Says something to everybody, those who do not see the page among them.
function tell(text) { set($("news"), text); }
