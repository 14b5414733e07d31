// The pages of `meshbed report` in headless Chromium: node browser.mjs CHROMIUM SCREENSHOT_FOLDER FILE.html...
//
// Of each page, in light and in dark colours: no error on the console, no request for anything but the file, and nothing
// that axe-core finds. A timeline zooms and pans by mouse and keyboard; a sweep's table sorts and filters. Prints a line
// for each check, and ends with status 1 if one fails.
import axe from "axe-core";
import { statSync } from "node:fs";
import { basename } from "node:path";
import { pathToFileURL } from "node:url";
import puppeteer from "puppeteer-core";

const [chromium, folder, ...files] = process.argv.slice(2);
let failures = 0;

function check(holds, what, detail = "") {
  if (!holds) ++failures;
  console.log(`${holds ? "ok    " : "ERROR:"} ${what}${detail === "" ? "" : `: ${detail}`}`);
}

async function checkAxe(page, what) {
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  const found = violations.map((each) => `${each.id} (${each.nodes.length}, as ${each.nodes[0].html.slice(0, 120)})`);
  check(found.length === 0, `${what}: axe-core finds nothing`, found.join("; "));
}

const view = (page) =>
  page.$eval("[data-timeline]", ({ timeline }) => ({ from: timeline.from, to: timeline.to, frames: timeline.frames }));
const span = ({ from, to }) => to - from;

async function checkTimeline(page, what) {
  const canvas = await page.$(".canvas canvas");
  await canvas.scrollIntoView();
  const settle = () => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  const whole = await view(page);
  await canvas.focus();
  await page.keyboard.press("+");
  await page.keyboard.press("+");
  const zoomed = await view(page);
  check(span(zoomed) < 0.5 * span(whole), `${what}: + zooms in`);
  await page.keyboard.press("ArrowRight");
  check((await view(page)).from > zoomed.from, `${what}: the right arrow pans`);
  await page.keyboard.press("0");
  check(span(await view(page)) === span(whole), `${what}: 0 shows all`);
  const box = await canvas.boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + 80);
  await page.keyboard.down("Control");
  await page.mouse.wheel({ deltaY: -600 });
  await page.keyboard.up("Control");
  await settle();
  const wheeled = await view(page);
  check(span(wheeled) < span(whole), `${what}: Ctrl and the wheel zoom in`);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width / 2 + 60, box.y + 80, { steps: 4 });
  await page.mouse.up();
  await settle();
  check((await view(page)).from < wheeled.from, `${what}: dragging pans`);
  await page.keyboard.press("0");
  await page.keyboard.press("n");
  const details = await page.$eval(".details", (each) => each.textContent);
  check(/ at | from /.test(details), `${what}: N picks an item`, details);
  await settle();
  // A frame with all that the run has, drawn at once, as while zooming.
  const frame_ms = await page.$eval("[data-timeline]", ({ timeline }) => {
    const begun = performance.now();
    for (let i = 0; i < 20; ++i) timeline.draw();
    return (performance.now() - begun) / 20;
  });
  check(frame_ms < 1000 / 30, `${what}: 30 frames a second`, `${frame_ms.toFixed(1)} ms a frame`);
}

async function checkSweep(page, what) {
  const column = (index) =>
    page.$$eval("table[data-table] tbody tr:not([hidden])", (rows, at) => rows.map((row) => row.cells[at].textContent), index);
  const rows = (await column(0)).length;
  const time = await page.$$eval("table[data-table] thead th", (heads) => heads.findIndex((head) => head.textContent.startsWith("time")));
  const press = async () => {
    await page.$eval("table[data-table]", (table, at) => table.tHead.rows[0].cells[at].querySelector("button").focus(), time);
    await page.keyboard.press("Enter");
  };
  const numbers = async () =>
    (await column(time)).map((text) => Number(text.replace(/\u202f/g, ""))).filter((value) => !Number.isNaN(value));
  const sorted = (values, sign) => values.every((value, i) => i === 0 || sign * (value - values[i - 1]) >= 0);
  await press();
  const up = await numbers();
  check(up.length > 3 && sorted(up, 1), `${what}: Enter on a heading sorts`);
  await press();
  check(sorted(await numbers(), -1), `${what}: once more, in the other direction`);
  await page.type("input[type=search]", "switch");
  const filtered = await page.$$eval("table[data-table] tbody tr:not([hidden])", (all) => all.map((row) => row.textContent));
  check(filtered.length > 0 && filtered.length < rows && filtered.every((text) => text.includes("switch")), `${what}: the filter keeps rows with its word`, `${filtered.length} of ${rows}`);
}

async function checkPage(browser, file) {
  const what = basename(file);
  const page = await browser.newPage();
  const problems = [];
  page.on("console", (message) => ["error", "warn"].includes(message.type()) && problems.push(message.text()));
  page.on("pageerror", (error) => problems.push(String(error)));
  const requests = [];
  page.on("request", (request) => requests.push(request.url()));
  await page.setViewport({ width: 1300, height: 1000 });
  const address = pathToFileURL(file).href;
  const begun = performance.now();
  await page.goto(address, { waitUntil: "load" });
  const load_ms = performance.now() - begun;
  const bytes = statSync(file).size;
  check(bytes <= 5_000_000, `${what}: at most 5 MB`, `${bytes} bytes, loaded in ${load_ms.toFixed(0)} ms`);
  for (const colours of ["light", "dark"]) {
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: colours }]);
    await checkAxe(page, `${what}, ${colours}`);
    await page.screenshot({ path: `${folder}/${what}-${colours}.png`, fullPage: true });
  }
  await page.click("#theme");
  check((await page.$eval(":root", (root) => root.dataset.theme)) === "light", `${what}: the switch changes the colours`);
  if (await page.$("[data-timeline]")) await checkTimeline(page, what);
  if (await page.$("table[data-table]")) await checkSweep(page, what);
  await page.emulateMediaType("print");
  await page.pdf({ path: `${folder}/${what}.pdf` });
  check(problems.length === 0, `${what}: nothing on the console`, problems.join("; "));
  check(requests.every((url) => url === address), `${what}: no request but the file's`, requests.filter((url) => url !== address).join(" "));
  await page.close();
}

const browser = await puppeteer.launch({
  executablePath: chromium,
  headless: true,
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
});
try {
  for (const file of files) await checkPage(browser, file);
} finally {
  await browser.close();
}
process.exitCode = failures === 0 ? 0 : 1;
