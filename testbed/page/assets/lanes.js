// The lanes of a timeline, made from the page's data: each with the starts and ends of its items in typed arrays, sorted
// by start, and for each item the row in which it stands where several overlap.

const kRowsMost = 6;

export const kKinds = [
  { kind: "rank", title: "Ranks", height: 26 },
  { kind: "nic", title: "Ports", height: 24 },
  { kind: "link", title: "Link directions", height: 22 },
  { kind: "ring", title: "Work rings", height: 44 },
];

class Lane {
  constructor(kind, name) {
    Object.assign(this, { kind, name, items: [] });
  }

  /// `refer`: what the details of the item are made of.
  add(start, end, refer) {
    this.items.push([start, end, refer]);
  }

  finish() {
    this.items.sort((left, right) => left[0] - right[0]);
    const count = this.items.length;
    this.count = count;
    this.start = Float64Array.from(this.items, (item) => item[0]);
    this.end = Float64Array.from(this.items, (item) => item[1]);
    this.refer = this.items.map((item) => item[2]);
    this.items = null;
    // [i] the latest end among the items up to i: where to begin what is visible.
    this.latest = new Float64Array(count);
    this.row = new Uint8Array(count);
    const free = [];
    let latest = -Infinity;
    for (let i = 0; i < count; ++i) {
      latest = Math.max(latest, this.end[i]);
      this.latest[i] = latest;
      let row = free.findIndex((end) => end <= this.start[i]);
      if (row < 0) row = free.length < kRowsMost ? free.length : i % kRowsMost;
      free[row] = this.end[i];
      this.row[i] = row;
    }
    this.rows = Math.max(1, free.length);
    return this;
  }

  /// The first item that may reach beyond `time`.
  firstAfter(time) {
    let low = 0;
    let high = this.count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.latest[middle] < time) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/// Starts from their differences.
function sums(differences) {
  let sum = 0;
  return differences.map((each) => (sum += each));
}

/// The data's lanes in groups, and the text of an item.
export function lanesOf(data) {
  const lanes = data.lanes.map((lane) => new Lane(lane.kind, lane.name));
  const { calls, messages, slots } = data;
  sums(calls.start).forEach((start, i) => {
    lanes[calls.lane[i]].add(start, start + calls.length[i], { what: "call", i });
  });
  const hasCalls = new Set(calls.lane);
  if (messages) {
    sums(messages.start).forEach((posted, i) => {
      const pair = messages.pairs[messages.pair[i]].lanes;
      const started = posted + messages.wait[i];
      const delivered = started + messages.wire[i];
      const refer = { what: "message", i, posted };
      // Where a rank calls collectives its lane shows those.
      if (!hasCalls.has(pair[0])) lanes[pair[0]].add(posted, posted + messages.length[i], refer);
      lanes[pair[1]].add(posted, delivered, refer);
      for (const lane of pair.slice(2)) lanes[lane].add(started, delivered, refer);
    });
  }
  if (slots) {
    sums(slots.start).forEach((start, i) => {
      lanes[slots.lane[i]].add(start, start + slots.length[i], { what: "slot", i });
    });
  }
  const groups = kKinds.map((kind) => ({
    ...kind,
    open: true,
    lanes: lanes.filter((lane) => lane.kind === kind.kind).map((lane) => lane.finish()),
  }));
  const natural = new Intl.Collator("en", { numeric: true });
  for (const group of groups) {
    group.lanes = group.lanes.filter((lane) => lane.count > 0 || lane.kind === "rank");
    group.lanes.sort((left, right) => natural.compare(left.name, right.name));
  }
  return groups.filter((group) => group.lanes.length > 0);
}

export function describe(data, lane, index, timeText) {
  const { what, i, posted } = lane.refer[index];
  const from = lane.start[index];
  const length = timeText(lane.end[index] - from);
  if (what === "call") {
    const number = data.calls.iteration[i];
    const which = number < 0 ? `warm-up ${-number}` : `iteration ${number}`;
    return `${lane.name}: ${data.calls.name}, ${which}, from ${timeText(from)}, ${length}`;
  }
  if (what === "slot") {
    const { slots } = data;
    return `${lane.name}: slot ${slots.slot[i]}, ${slots.opcodes[slots.opcode[i]]}, ${slots.end[i]}, claimed at ${timeText(from)}, ${length}`;
  }
  const { messages } = data;
  const pair = messages.pairs[messages.pair[i]];
  return (
    `${messages.opcodes[messages.opcode[i]]} of ${messages.bytes[i].toLocaleString("en")} B, rank ${pair.from} to rank ${pair.to}: ` +
    `posted at ${timeText(posted)}, waited ${timeText(messages.wait[i])}, on the wire ${timeText(messages.wire[i])}, ` +
    `completed after ${timeText(messages.length[i])}`
  );
}
