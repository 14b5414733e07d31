// The timeline: a canvas that the reader zooms and pans by mouse and keyboard.
//
// Only what is visible is drawn, and of many items in one pixel only how long they fill it: a frame costs a pass over the
// visible items and at most one rectangle a pixel and lane.
import { describe, lanesOf } from "./lanes.js";
import { onThemeChange } from "./theme.js";

const kNameWidth = 210;
const kAxisHeight = 26;
const kGroupHeight = 22;
const kHeightMost = 620;
const kItemsDrawnOneByOne = 600;
const kHelp =
  "Drag or use the arrow keys to move, + and − (or Ctrl and the wheel) to zoom, 0 to see all, " +
  "N and P for the next and previous item of a lane, Page up and Page down for another lane.";

function element(tag, properties, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

/// Ticks as people read times.
function timeTextOf(tickPs) {
  return (ticks) => {
    let value = (ticks * tickPs) / 1000;
    for (const unit of ["ns", "µs", "ms"]) {
      if (Math.abs(value) < 1000) return `${Number(value.toPrecision(6))} ${unit}`;
      value /= 1000;
    }
    return `${Number(value.toPrecision(6))} s`;
  };
}

class Timeline {
  constructor(root) {
    this.data = JSON.parse(document.getElementById(root.dataset.timeline).textContent);
    this.groups = lanesOf(this.data);
    this.timeText = timeTextOf(this.data.tick_ps);
    this.fit();
    this.scroll = 0;
    this.picked = null; // {lane, index}
    this.frames = 0;
    this.build(root);
    this.resize();
    new ResizeObserver(() => this.resize()).observe(this.canvas.parentElement);
    onThemeChange(() => this.resize());
  }

  /// From the first item to the last one: connecting may take longer than all that follows.
  fit() {
    let from = Infinity;
    let to = -Infinity;
    for (const { lanes } of this.groups) {
      for (const lane of lanes) {
        if (lane.count === 0) continue;
        from = Math.min(from, lane.start[0]);
        to = Math.max(to, lane.latest[lane.count - 1]);
      }
    }
    for (const fault of this.data.faults) {
      from = Math.min(from, fault.at);
      to = Math.max(to, fault.at);
    }
    if (!(to > from)) [from, to] = [0, Math.max(1, this.data.end)];
    const margin = (to - from) * 0.01;
    this.low = from - margin;
    this.high = to + margin;
    this.from = this.low;
    this.to = this.high;
  }

  build(root) {
    const button = (text, label, act) => {
      const made = element("button", { type: "button", textContent: text, onclick: act });
      made.setAttribute("aria-label", label);
      return made;
    };
    const bar = element(
      "p",
      { className: "tools" },
      button("−", "Zoom out", () => this.zoom(1.6)),
      button("+", "Zoom in", () => this.zoom(1 / 1.6)),
      button("◀", "Earlier", () => this.pan(-0.3)),
      button("▶", "Later", () => this.pan(0.3)),
      button("All", "Show all of the run", () => this.showAll()),
    );
    for (const group of this.groups) {
      const box = element("input", { type: "checkbox", checked: true });
      box.onchange = () => {
        group.open = box.checked;
        this.resize();
      };
      bar.append(element("label", {}, box, ` ${group.title}`));
    }
    this.canvas = element("canvas", { tabIndex: 0 });
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-label", "Timeline of the run");
    const help = element("p", { className: "note", id: `${root.dataset.timeline}-help`, textContent: kHelp });
    this.canvas.setAttribute("aria-describedby", help.id);
    this.status = element("p", { className: "details", textContent: "Point at an item for its details." });
    this.status.setAttribute("role", "status");
    root.append(bar, element("div", { className: "canvas" }, this.canvas), this.status, help);
    this.listen();
    root.timeline = this; // for the browser's console, and the test
  }

  listen() {
    const canvas = this.canvas;
    canvas.addEventListener(
      "wheel",
      (event) => {
        if (event.ctrlKey || event.metaKey) {
          event.preventDefault();
          this.zoom(Math.exp(event.deltaY * 0.002), this.timeAt(event.offsetX));
        } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey) {
          event.preventDefault();
          this.pan((event.deltaX || event.deltaY) / this.width);
        } else if (this.scrollBy(event.deltaY)) {
          event.preventDefault();
        }
      },
      { passive: false },
    );
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.drag = { x: event.offsetX, y: event.offsetY, moved: false };
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!this.drag) return this.pointAt(event.offsetX, event.offsetY);
      const { x, y } = this.drag;
      if (Math.abs(event.offsetX - x) + Math.abs(event.offsetY - y) > 3) this.drag.moved = true;
      this.pan((x - event.offsetX) / this.width);
      this.scrollBy(y - event.offsetY);
      this.drag.x = event.offsetX;
      this.drag.y = event.offsetY;
    });
    const end = () => (this.drag = null);
    canvas.addEventListener("pointerup", end);
    canvas.addEventListener("pointercancel", end);
    canvas.addEventListener("dblclick", (event) => this.zoom(1 / 4, this.timeAt(event.offsetX)));
    canvas.addEventListener("keydown", (event) => this.press(event));
  }

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const actions = {
      ArrowLeft: () => this.pan(-0.1),
      ArrowRight: () => this.pan(0.1),
      ArrowUp: () => this.scrollBy(-40),
      ArrowDown: () => this.scrollBy(40),
      "+": () => this.zoom(1 / 1.6),
      "=": () => this.zoom(1 / 1.6),
      "-": () => this.zoom(1.6),
      0: () => this.showAll(),
      Home: () => this.showAll(),
      n: () => this.step(1),
      p: () => this.step(-1),
      PageDown: () => this.changeLane(1),
      PageUp: () => this.changeLane(-1),
    };
    const action = actions[event.key] || actions[event.key.toLowerCase()];
    if (!action) return;
    event.preventDefault();
    action();
  }

  // ---- what is visible ----

  get width() {
    return Math.max(1, this.fullWidth - kNameWidth);
  }
  timeAt(x) {
    return this.from + ((x - kNameWidth) / this.width) * (this.to - this.from);
  }

  zoom(factor, around = (this.from + this.to) / 2) {
    const whole = this.high - this.low;
    const span = Math.min(whole, Math.max(2, (this.to - this.from) * factor));
    const part = (around - this.from) / (this.to - this.from);
    this.show(around - part * span, span);
  }
  pan(part) {
    const span = this.to - this.from;
    this.show(this.from + part * span, span);
  }
  showAll() {
    this.show(this.low, this.high - this.low);
  }
  show(from, span) {
    this.from = Math.max(this.low, Math.min(from, this.high - span));
    this.to = this.from + span;
    this.redraw();
  }
  /// False at either end, where the page scrolls instead.
  scrollBy(pixels) {
    const before = this.scroll;
    this.scroll = Math.max(0, Math.min(this.scroll + pixels, this.contentHeight - this.height + kAxisHeight));
    if (this.scroll !== before) this.redraw();
    return this.scroll !== before;
  }

  layOut() {
    this.places = [];
    let y = 0;
    for (const group of this.groups) {
      if (!group.open) continue;
      this.places.push({ title: group.title, y, height: kGroupHeight });
      y += kGroupHeight;
      for (const lane of group.lanes) {
        this.places.push({ lane, y, height: group.height });
        y += group.height;
      }
    }
    this.contentHeight = y + 4;
  }

  resize() {
    this.layOut();
    const box = this.canvas.parentElement;
    const ratio = devicePixelRatio || 1;
    this.fullWidth = Math.max(320, box.clientWidth);
    this.height = Math.min(kHeightMost, this.contentHeight + kAxisHeight);
    this.canvas.style.height = `${this.height}px`;
    this.canvas.width = this.fullWidth * ratio;
    this.canvas.height = this.height * ratio;
    this.context = this.canvas.getContext("2d");
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    this.colours = {
      back: colour("--panel"),
      text: colour("--text"),
      faint: colour("--faint"),
      grid: colour("--line"),
      alarm: colour("--bad"),
      rank: colour("--c0"),
      nic: colour("--c2"),
      link: colour("--c1"),
      ring: colour("--c3"),
    };
    this.scroll = Math.max(0, Math.min(this.scroll, this.contentHeight - this.height + kAxisHeight));
    this.redraw();
  }

  redraw() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = 0;
      this.draw();
    });
  }

  // ---- drawing ----

  draw() {
    const { context, colours, fullWidth, height } = this;
    context.fillStyle = colours.back;
    context.fillRect(0, 0, fullWidth, height);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    this.drawAxis();
    context.save();
    context.beginPath();
    context.rect(0, kAxisHeight, fullWidth, height - kAxisHeight);
    context.clip();
    for (const place of this.places) {
      const y = place.y - this.scroll + kAxisHeight;
      if (y + place.height < kAxisHeight || y > height) continue;
      if (place.lane) this.drawLane(place.lane, y, place.height);
      else this.drawTitle(place.title, y);
    }
    this.drawFaults();
    context.restore();
    ++this.frames;
  }

  drawTitle(title, y) {
    const { context, colours } = this;
    context.fillStyle = colours.faint;
    context.font = "600 11px system-ui, sans-serif";
    context.fillText(title.toUpperCase(), 8, y + kGroupHeight / 2 + 2);
    context.font = "12px system-ui, sans-serif";
  }

  drawAxis() {
    const { context, colours } = this;
    const span = this.to - this.from;
    const raw = span / Math.max(2, this.width / 120);
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= raw);
    context.strokeStyle = colours.grid;
    context.fillStyle = colours.faint;
    context.textAlign = "center";
    context.beginPath();
    for (let at = Math.ceil(this.from / step) * step; at <= this.to; at += step) {
      const x = Math.round(this.xOf(at)) + 0.5;
      context.moveTo(x, kAxisHeight - 5);
      context.lineTo(x, this.height);
      if (x > kNameWidth + 30 && x < this.fullWidth - 30) context.fillText(this.timeText(at), x, 11);
    }
    context.stroke();
    context.textAlign = "left";
  }

  xOf(time) {
    return kNameWidth + ((time - this.from) / (this.to - this.from)) * this.width;
  }

  drawLane(lane, y, height) {
    const { context, colours } = this;
    const isPicked = this.picked && this.picked.lane === lane;
    context.fillStyle = isPicked ? colours.text : colours.faint;
    context.fillText(lane.name, 8, y + height / 2, kNameWidth - 16);
    context.fillStyle = colours[lane.kind];
    const first = lane.firstAfter(this.from);
    let last = first;
    while (last < lane.count && lane.start[last] <= this.to) ++last;
    if (last - first <= kItemsDrawnOneByOne) this.drawItems(lane, first, last, y + 2, height - 4);
    else this.drawDensity(lane, first, last, y + 2, height - 4);
    if (isPicked) this.drawPicked(lane, y + 2, height - 4);
  }

  boxOf(lane, index, y, height) {
    const left = Math.max(kNameWidth, this.xOf(lane.start[index]));
    const right = Math.min(this.fullWidth, this.xOf(lane.end[index]));
    const row = height / lane.rows;
    return [left, y + lane.row[index] * row, Math.max(1, right - left - 0.5), Math.max(1, row - 0.5)];
  }

  drawItems(lane, first, last, y, height) {
    for (let i = first; i < last; ++i) {
      if (lane.end[i] >= this.from) this.context.fillRect(...this.boxOf(lane, i, y, height));
    }
  }

  /// How many items fill each pixel's time, as a column.
  drawDensity(lane, first, last, y, height) {
    const width = Math.ceil(this.width);
    if (!this.filled || this.filled.length !== width + 2) {
      this.filled = new Float64Array(width + 2);
      this.whole = new Float64Array(width + 2); // changes of how many items fill whole pixels
    }
    const filled = this.filled.fill(0);
    const whole = this.whole.fill(0);
    const scale = this.width / (this.to - this.from);
    for (let i = first; i < last; ++i) {
      const left = Math.max(0, (lane.start[i] - this.from) * scale);
      const right = Math.min(width, (lane.end[i] - this.from) * scale);
      if (right < left) continue;
      const from = left | 0;
      const to = right | 0;
      if (from === to) {
        filled[from] += right - left;
      } else {
        filled[from] += from + 1 - left;
        filled[to] += right - to;
        ++whole[from + 1];
        --whole[to];
      }
    }
    // Equal neighbours are one rectangle.
    let level = 0;
    let begun = 0;
    let before = 0;
    for (let x = 0; x <= width; ++x) {
      level += whole[x];
      const part = x < width ? (level + filled[x]) / lane.rows : 0;
      const tall = part <= 0 ? 0 : Math.max(1, Math.round(Math.min(1, part) * height));
      if (tall === before) continue;
      if (before > 0) this.context.fillRect(kNameWidth + begun, y + height - before, x - begun, before);
      begun = x;
      before = tall;
    }
  }

  drawPicked(lane, y, height) {
    const { context, colours } = this;
    const box = this.boxOf(lane, this.picked.index, y, height);
    context.strokeStyle = colours.text;
    context.lineWidth = 2;
    context.strokeRect(box[0] - 1, box[1] - 1, box[2] + 2, box[3] + 2);
    context.lineWidth = 1;
  }

  drawFaults() {
    const { context, colours } = this;
    context.strokeStyle = colours.alarm;
    context.fillStyle = colours.alarm;
    this.data.faults.forEach((fault, index) => {
      const x = this.xOf(fault.at);
      if (x < kNameWidth || x > this.fullWidth) return;
      context.setLineDash([5, 3]);
      context.beginPath();
      context.moveTo(x, kAxisHeight);
      context.lineTo(x, this.height);
      context.stroke();
      context.setLineDash([]);
      const right = x < this.fullWidth - 180;
      context.textAlign = right ? "left" : "right";
      context.fillText(fault.text, right ? x + 5 : x - 5, kAxisHeight + 10 + (index % 3) * 14);
      context.textAlign = "left";
    });
  }

  // ---- items ----

  pick(lane, index) {
    this.picked = { lane, index };
    this.status.textContent = describe(this.data, lane, index, this.timeText);
    this.redraw();
  }

  pointAt(x, y) {
    if (x < kNameWidth || y < kAxisHeight) return;
    const at = y - kAxisHeight + this.scroll;
    const place = this.places.find((each) => each.lane && at >= each.y && at < each.y + each.height);
    if (!place) return;
    const { lane } = place;
    const reach = (2 / this.width) * (this.to - this.from);
    const time = this.timeAt(x);
    const row = Math.min(lane.rows - 1, Math.floor(((at - place.y) / place.height) * lane.rows));
    let found = -1;
    for (let i = lane.firstAfter(time - reach); i < lane.count && lane.start[i] <= time + reach; ++i) {
      if (lane.end[i] < time - reach) continue;
      if (found < 0 || lane.row[i] === row) found = i;
      if (lane.row[found] === row) break;
    }
    if (found >= 0 && !(this.picked && this.picked.lane === lane && this.picked.index === found)) this.pick(lane, found);
  }

  visibleLanes() {
    return this.places.filter((place) => place.lane && place.lane.count > 0).map((place) => place.lane);
  }

  step(by) {
    const lane = this.picked ? this.picked.lane : this.visibleLanes()[0];
    if (!lane) return;
    const first = lane.firstAfter(this.from);
    const index = this.picked ? this.picked.index + by : first;
    if (index < 0 || index >= lane.count) return;
    const span = this.to - this.from;
    this.pick(lane, index);
    if (lane.end[index] < this.from || lane.start[index] > this.to) this.show(lane.start[index] - span / 2, span);
  }

  changeLane(by) {
    const lanes = this.visibleLanes();
    if (lanes.length === 0) return;
    const now = this.picked ? lanes.indexOf(this.picked.lane) : -by;
    const lane = lanes[Math.max(0, Math.min(lanes.length - 1, now + by))];
    const place = this.places.find((each) => each.lane === lane);
    if (place.y < this.scroll) this.scroll = place.y;
    const bottom = place.y + place.height - (this.height - kAxisHeight);
    if (bottom > this.scroll) this.scroll = bottom;
    this.pick(lane, Math.min(lane.count - 1, lane.firstAfter(this.from)));
  }
}

export function addTimelines(roots) {
  for (const root of roots) new Timeline(root);
}
