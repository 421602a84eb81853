// The rates and stalls of the last minutes: as the server tells them at first, then as this page sees them.

const minutes = 5, width = 600, height = 120, shapes = "http://www.w3.org/2000/svg";
const past = [];
const faults = ["origin", "queue", "disk"];
let before, isGap = true;

// Adds a message. A page that was not shown for a while has a gap.
function remember(volume) {
    const moment = performance.now() / 1000;
    const needs = volume.files.reduce((sum, file) => sum + (file.isPlayed ? file.neededRate ?? 0 : 0), 0);
    const entry = { moment, needs, bytes: volume.bytesFromOrigin, stalls: volume.stalls ?? {}, rate: 0, fresh: [] };
    const last = before;
    before = entry;
    // A single message tells no rate.
    if (!last || moment - last.moment > 5) return isGap = true;
    entry.rate = Math.max(0, (entry.bytes - last.bytes) / Math.max(0.2, moment - last.moment));
    entry.fresh = faults.filter((fault) => (entry.stalls[fault] ?? 0) > (last.stalls[fault] ?? 0));
    entry.isFirst = isGap;
    isGap = false;
    past.push(entry);
    while (past[0]?.moment < moment - minutes * 60) past.shift();
}

// Takes what the server has seen before, which fills each gap.
function recall(told) {
    past.length = 0;
    for (const [ago, rate, needs, ...stalls] of told) {
        const moment = before.moment - ago / 1000, last = past.at(-1);
        const fresh = faults.filter((_, index) => stalls[index] > 0);
        const isFirst = !last || moment - last.moment > 5;
        if (ago <= minutes * 60000) past.push({ moment, rate, needs, fresh, isFirst });
    }
    isGap = past.length === 0;
    if (!isGap) before.rate = past.at(-1).rate;
}

// `1 MiB` or the next rate above all that are shown: a power of two, so that the scale seldom changes.
function scale() {
    const most = past.reduce((most, entry) => Math.max(most, entry.rate, entry.needs), 0);
    return Math.max(1048576, 2 ** Math.ceil(Math.log2(most * 1.05 + 1)));
}

function showLine(volume, told) {
    remember(volume);
    if (told) recall(told);
    const end = before.moment, top = scale();
    const x = (entry) => (width * (1 - (end - entry.moment) / (minutes * 60))).toFixed(1);
    const y = (rate) => (height - 2 - (height - 6) * rate / top).toFixed(1);
    let line = "", area = "", needs = "", start;
    past.forEach((entry, index) => {
        if (entry.isFirst || index === 0) {
            if (start) area += " L" + x(past[index - 1]) + " " + height + " Z";
            start = entry;
            area += " M" + x(entry) + " " + height;
        }
        const step = entry.isFirst || index === 0 ? " M" : " L";
        line += step + x(entry) + " " + y(entry.rate);
        area += " L" + x(entry) + " " + y(entry.rate);
        needs += step + x(entry) + " " + y(entry.needs);
    });
    $("chart-line").setAttribute("d", line);
    $("chart-area").setAttribute("d", start ? area + " L" + x(past.at(-1)) + " " + height + " Z" : "");
    $("chart-needs").setAttribute("d", past.some((entry) => entry.needs > 0) ? needs : "");
    const stalls = past.flatMap((entry) => entry.fresh.map((fault) => [entry, fault]));
    const marks = stalls.map(([entry, fault]) => {
        const mark = document.createElementNS(shapes, "rect");
        mark.setAttribute("x", x(entry) - 1);
        mark.setAttribute("width", 3);
        mark.setAttribute("height", height);
        mark.dataset.k = fault;
        return mark;
    });
    $("chart-stalls").replaceChildren(...marks);
    const mean = past.reduce((sum, entry) => sum + entry.rate, 0) / Math.max(1, past.length);
    set($("rate"), volume.isOffline ? "Offline" : speed(before.rate));
    set($("rate-more"), (before.needs > 0 ? "players need " + speed(before.needs) + ", " : "") + "mean " + speed(mean));
    set($("chart-top"), "up to " + speed(top));
    $("chart").setAttribute("aria-label", "Rate of the last " + minutes + " minutes: mean " + speed(mean) + ", " +
        (stalls.length ? stalls.length + " stalls" : "no stall"));
}
