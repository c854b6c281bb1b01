// What a page with very many jobs behind it costs a browser: how long until it is drawn, how large it is, how long until
// another order, another page or another word is shown, and whether scrolling stays smooth. Called by bench/pages.py.
import { createRequire } from "node:module";
import { join } from "node:path";

const [, , url, token] = process.argv;
const { chromium } = createRequire(join(process.env.WARPYARD_BROWSER, "x.js"))("playwright-core");
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
const page = await context.newPage();
await page.goto(`${url}/login`);
await page.fill("input[name=token]", token);
await Promise.all([page.waitForURL(`${url}/`), page.locator("form button").first().click()]);

const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];
const swapped = (act) => page.evaluate(([kind, value]) => new Promise((done) => {
  const began = performance.now();
  document.addEventListener("warpyard:swapped", () => requestAnimationFrame(() => done(performance.now() - began)), { once: true });
  if (kind === "click") document.querySelector(value).click();
  else { const box = document.querySelector("input[type=search]"); box.value = value; box.dispatchEvent(new Event("input", { bubbles: true })); }
}), act);

for (const path of ["/queue", "/finished"]) {
  const loads = [], paints = [];
  for (let i = 0; i < 5; i += 1) {
    await page.goto(url + path);
    await page.locator("tbody tr").first().waitFor();
    const [load, paint] = await page.evaluate(() => [performance.getEntriesByType("navigation")[0].domComplete, performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0]);
    loads.push(load);
    paints.push(paint);
  }
  const [rows, elements] = await page.evaluate(() => [document.querySelectorAll("tbody tr").length, document.querySelectorAll("*").length]);
  const sorted = await swapped(["click", "thead a"]), turned = await swapped(["click", "a[data-part][rel=next], .turn a"]);
  const found = await swapped(["type", "sweep-12"]);
  const worst = await page.evaluate(() => new Promise((done) => {
    let last = performance.now(), longest = 0, frames = 0;
    const step = (now) => {
      longest = Math.max(longest, now - last);
      last = now;
      scrollBy(0, 60);
      if ((frames += 1) < 60) requestAnimationFrame(step); else done(longest);
    };
    requestAnimationFrame(step);
  }));
  const ms = (n) => `${n.toFixed(0)} ms`;
  console.log(`${path}: painted ${ms(median(paints))}, complete ${ms(median(loads))}; ${rows} rows, ${elements} elements; sorted ${ms(sorted)}, next page ${ms(turned)}, searched ${ms(found)} (120 ms of it waiting for more letters); longest frame of 60 while scrolling ${ms(worst)}`);
}
await browser.close();
