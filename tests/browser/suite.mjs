// The pages in a real browser: a server with fake GPUs, a person who submits, watches and changes things. Each story
// stands alone but for the server they share. `node suite.mjs WARPYARD [PICTURES]`; with a folder for pictures it leaves
// one of each page there.
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import assert from "node:assert/strict";

const [, , warpyard, pictures] = process.argv;
if (!warpyard) { console.error("usage: node suite.mjs WARPYARD [PICTURES]"); process.exit(2); }
const { chromium } = createRequire(join(process.env.WARPYARD_BROWSER ?? ".", "x.js"))("playwright-core");
const PATIENCE = 20_000;

const data = mkdtempSync(join(tmpdir(), "warpyard-browser-"));
const config = join(data, "config.toml");
writeFileSync(config, 'hosts = ["gpu1"]\n');
let server;
// Starts something that says where it is in a line of JSON.
const begin = (args, env) => {
  const started = spawn(warpyard, args, { stdio: ["ignore", "pipe", "inherit"], env: { ...process.env, ...env } });
  const ready = new Promise((told, failed) => {
    let said = "";
    started.stdout.on("data", (chunk) => { said += chunk; if (said.includes("\n")) told(JSON.parse(said)); });
    started.on("exit", (code) => failed(new Error(`${args[0]} ended with ${code}`)));
  });
  return { started, ready };
};
const up = (address) => {
  const { started, ready } = begin(["up", "--demo", "--json", "--data", data, "--listen", address ?? "127.0.0.1:0", "--cpus", "8", "--config", config], { USER: "ann" });
  server = started;
  return ready;
};
const killed = () => new Promise((ended) => { server.removeAllListeners("exit"); server.on("exit", ended); server.kill("SIGKILL"); });

// Programs ask at the port; people's pages are at a name of their own, which the link that logs them in names.
const { url: port, login } = await up();
const pagesOf = (ready) => new URL(ready.login).origin;
const url = pagesOf({ login });
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--host-resolver-rules=MAP gpu1 127.0.0.1"] });
const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
context.setDefaultTimeout(PATIENCE);
const wrong = [];
const opened = async (from = context, home = url) => {
  const page = await from.newPage();
  page.on("pageerror", (error) => wrong.push(`${page.url()}: ${error.message}`));
  page.on("console", (message) => {
    if (message.type() === "error" && !/status of 4|ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY/.test(message.text())) wrong.push(`${page.url()}: ${message.text()}`);
  });
  page.on("request", (request) => { if (!request.url().startsWith(home)) wrong.push(`asked elsewhere: ${request.url()}`); });
  return page;
};
const page = await opened();
const token = readFileSync(join(data, "token"), "utf8").trim();
const asking = (home, key) => async (method, path, body) => {
  const answer = await fetch(home + path, { method, headers: { authorization: `Bearer ${key}`, "content-type": "application/json" }, body: body && JSON.stringify(body) });
  assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${await answer.clone().text()}`);
  return answer.json();
};
const api = asking(port, token);
const submitting = (ask) => async (doc, user = "ann") => (await ask("POST", "/v1/jobs", { doc, user, workdir: "/", env: { PATH: "/usr/local/bin:/usr/bin:/bin" } })).job;
const submit = submitting(api);
const picture = async (name, of = page, fullPage = true) => {
  if (!pictures) return;
  mkdirSync(pictures, { recursive: true });
  const toasts = (how) => of.evaluate((now) => { document.getElementById("toasts").style.visibility = now; }, how);
  await toasts("hidden");
  await of.screenshot({ path: join(pictures, `${name}.png`), fullPage, animations: "disabled" });
  await toasts("");
};
const until = async (what, seen) => {
  const end = Date.now() + PATIENCE;
  while (Date.now() < end) { if (await seen()) return; await page.waitForTimeout(40); }
  assert.fail(`waited too long for ${what}`);
};
// Whoever is in line is told when they will likely start, once that is forecast.
const forecast = (tab) => until("a forecast of every start", async () => !(await tab.locator("td[data-label=starts], .board .starts").allTextContents()).some((cell) => cell.includes("…")));

const stories = {
  async "the link lets one person in"() {
    await page.goto(login);
    await page.waitForURL(`${url}/`);
    const stranger = await opened(await browser.newContext());
    const answer = await stranger.goto(`${url}/queue`);
    assert.equal(answer.status(), 401);
    assert.equal((await stranger.goto(login)).status(), 403, "the link was used");
    await stranger.context().close();
    await page.getByText("connected", { exact: true }).waitFor();
  },
  async "a page that is not there is asked for once"() {
    const lost = await opened();
    let asked = 0;
    lost.on("request", (request) => { if (request.url().endsWith("/jobs/9999")) asked += 1; });
    assert.equal((await lost.goto(`${url}/jobs/9999`)).status(), 404);
    await lost.getByText("connected", { exact: true }).waitFor();
    await lost.getByText(/^updated [4-9]s ago$/).waitFor();
    assert.equal(asked, 1);
    await lost.close();
  },
  async "every GPU is a tile in its users' colours, and the queue is on the first screen"() {
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.goto(url);
    assert.equal(await page.locator(".tiles .tile.busy, .tiles .tile.free, .tiles .tile.foreign").count(), 7, "six GPUs and a worker");
    await page.locator("[data-live=tiles] .who li").nth(3).waitFor();
    const first = page.locator(".board li").first();
    await first.waitFor();
    await page.locator(".board .starts time").first().waitFor();
    const box = await first.boundingBox();
    assert.ok(box.y + box.height < 800, `the queue begins at ${box.y} px`);
    // One colour for each user, the same on every tile, in the queue and in the legend.
    const chips = await page.locator(".users .chip, .who .chip, .board .chip").evaluateAll((all) => all.map((chip) => [chip.textContent, chip.className]));
    const users = new Set(chips.map(([initials]) => initials)), looks = new Set(chips.map((chip) => chip.join()));
    assert.ok(users.size >= 3, [...users].join());
    assert.equal(looks.size, users.size, "a user has one colour");
    assert.equal(new Set(chips.map(([, colour]) => colour)).size, users.size, "no two users share one");
    await page.locator(".gauge", { hasText: /CPU.*used.*reserved of 8 CPUs/s }).waitFor();
    await page.locator(".gauge", { hasText: /memory.*used.*reserved of/s }).waitFor();
    await forecast(page);
    await picture("now");
    await page.emulateMedia({ colorScheme: "dark" });
    await picture("now-dark");
    await page.emulateMedia({ colorScheme: null });
    await page.setViewportSize({ width: 390, height: 844 });
    await picture("now-phone");
    await page.setViewportSize({ width: 1440, height: 900 });
  },
  async "a job is written in the form, previewed, submitted and watched"() {
    await page.goto(`${url}/new`);
    await page.locator(".task").first().waitFor();
    const values = await page.locator("#fields [placeholder]").evaluateAll((all) => all.map((input) => input.placeholder).filter((text) => !/e\.g\.|^(none|any|default|as above)/.test(text)));
    assert.deepEqual(values, [], "an example cannot be mistaken for a value");
    const gate = join(data, "gate");
    await page.fill("#f-name", "from-the-form");
    await page.fill("[data-path='tasks[0].name']", "prepare");
    await page.fill("[data-path='tasks[0].command']", "echo prepared; sleep 1");
    await page.fill("[data-path='tasks[0].cpus']", "0.5");
    await page.click("#add-task");
    await page.fill("[data-path='tasks[1].name']", "fit");
    await page.fill("[data-path='tasks[1].command']", `for i in 1 2 3; do echo step $i; sleep 0.2; done; until [ -e ${gate} ]; do sleep 0.05; done`);
    await page.fill("[data-path='tasks[1].cpus']", "0.5");
    await page.fill("[data-path='tasks[1].gpus']", "99");
    const said = page.locator(".f-gpus .wrong-word:visible");
    await said.waitFor();
    assert.match(await said.textContent(), /99 GPUs/);
    assert.ok(await page.locator("#submit").isDisabled(), "what is wrong is not submitted");
    await page.fill("[data-path='tasks[1].gpus']", "");
    await page.locator("#preview .badge").getByText("starts immediately").waitFor();
    assert.doesNotMatch(await page.textContent("#preview"), /null|undefined/);
    assert.equal(await page.locator("#new-graph .edge").count(), 1, "the dependency is drawn");
    const own = await page.locator("#toml").inputValue();
    assert.match(own, /after = \["prepare"\]/);
    // One that must wait, as jobs do: its place, when it would start, and what it would gain by asking for less.
    const task = (name, command, more) => `[[tasks]]\nname = "${name}"\ncommand = "${command}"\n${more}\n`;
    await page.fill("#toml", `name = "vision"\n${task("prepare", "python prepare.py", 'gpus = 4\ngpu_type = "V100"\ngpu_memory = "8GiB"\ntimeout = "30m"')}${task("fit", "python fit.py --fold %{index}", 'after = ["prepare"]\narray = "1-5"\ngpus = 1\ntimeout = "2h"')}`);
    await page.locator("#preview", { hasText: /position \d+ in the queue/ }).locator("tbody tr").first().waitFor();
    await picture("new");
    await page.fill("#toml", own);
    await until("the form to be as it was", async () => (await page.inputValue("#f-name")) === "from-the-form");
    await page.fill("#toml", (await page.locator("#toml").inputValue()).replace("from-the-form", "from-the-toml"));
    await until("the form to follow the TOML", async () => (await page.inputValue("#f-name")) === "from-the-toml");
    await until("a preview", () => page.locator("#submit").isEnabled());
    await page.click("#submit");
    await page.waitForURL(/\/jobs\/\d+$/);
    const state = (task) => page.locator(".graph .node", { hasText: task }).getAttribute("class");
    await until("prepare to succeed and fit to run", async () => (await state("prepare")).includes("succeeded") && (await state("fit")).includes("running"));
    await page.locator("#log", { hasText: "step 2" }).waitFor();
    await page.fill("#log-search", "step");
    await until("matches", async () => /found|of/.test(await page.textContent("#log-count")));
    writeFileSync(gate, "");
    await page.locator(".badge.big.succeeded").waitFor();
    assert.match(await state("fit"), /succeeded/);
  },
  async "the form has everything the schema has, and says what is wrong where it is wrong"() {
    await page.goto(`${url}/new`);
    await page.locator(".task").first().waitFor();
    const { $defs } = await api("GET", "/v1/schema/job");
    const shown = ({ properties }) => Object.keys(properties).filter((n) => !properties[n]["x-form-hidden"]);
    const fields = [...shown($defs.JobDoc).filter((n) => n !== "tasks"), ...shown($defs.TaskDoc).map((n) => `tasks[0].${n}`)];
    for (const name of fields.filter((n) => n !== "user")) assert.equal(await page.locator(`[data-path="${name}"]`).count(), 1, name);
    assert.equal(await page.locator("#user").count(), 1);
    await page.fill("[data-path='tasks[0].command']", "true");
    await page.fill("[data-path='weight']", "2.5");
    await page.click("#add-job-after");
    await page.fill("[data-path='after[0]']", "999999");
    await page.locator(".f-job-after .wrong-word:visible", { hasText: "999999" }).waitFor();
    const first = await submit({ name: "first", cpus: 0.1, command: "sleep 1", timeout: "1m" });
    await page.fill("[data-path='after[0]']", first);
    await page.locator(".f-job-after select").selectOption("any");
    await page.fill("[data-path='tasks[0].gpu_memory']", "lots");
    await page.locator(".f-gpu_memory .wrong-word:visible").waitFor();
    await page.fill("[data-path='tasks[0].gpu_memory']", "");
    await until("nothing wrong", () => page.locator("#submit").isEnabled());
    assert.match(await page.locator("#toml").inputValue(), new RegExp(`weight = 2.5\nafter = \\[\\{ job = "${first}", on = "any" \\}\\]`));
    const good = await page.locator("#toml").inputValue();
    await page.fill("#toml", good.replace("weight = 2.5", 'weight = "heavy'));
    await page.locator("#toml-wrong", { hasText: /line \d+: not TOML/ }).waitFor();
    assert.match(await page.textContent("#preview"), /TOML cannot be read/, "no forecast of what cannot be read");
    assert.ok(await page.locator("#submit").isDisabled());
    assert.equal(await page.inputValue("[data-path='weight']"), "2.5", "the form stays as it was");
    await page.fill("#toml", good.replace('command = "true"', 'command = """\ncd /tmp\ntrue"""'));
    await until("the form to have both lines", async () => (await page.inputValue("[data-path='tasks[0].command']")) === "cd /tmp\ntrue");
    await page.fill("#toml", good);
    await until("nothing wrong again", () => page.locator("#submit").isEnabled());
    assert.equal(await page.textContent("#toml-wrong"), "");
    await page.click("#submit");
    await page.waitForURL(/\/jobs\/\d+$/);
    await page.locator(".badge.big.succeeded").waitFor();
  },
  async "a job is held, released, made urgent and cancelled, and each can be taken back"() {
    const job = await submit({ name: "changed", gpus: 6, command: "sleep 60", timeout: "5m" });
    await page.goto(`${url}/jobs/${job}`);
    await page.click("[data-act=hold]");
    await page.locator("[data-act=release]").waitFor();
    await page.locator(".toast button", { hasText: "Undo" }).click();
    await page.locator("[data-act=hold]").waitFor();
    await page.fill("input[name=priority]", "7");
    await page.locator("form[data-form=priority] button").click();
    await until("the priority", async () => (await page.locator(".job-head .facts").textContent()).includes("priority7"));
    await page.click("[data-act=cancel]");
    await page.locator("dialog[open] [value=no]").click();
    assert.equal(await page.locator(".badge.big.cancelled").count(), 0, "a question unanswered changes nothing");
    await page.click("[data-act=cancel]");
    await page.locator("dialog[open] [value=yes]").click();
    await page.locator(".badge.big.cancelled").waitFor();
  },
  async "what failed says so and is run again"() {
    const job = await submit({ name: "fails", cpus: 0.1, command: "echo about to fail; exit 3", timeout: "1m" });
    await page.goto(`${url}/jobs/${job}`);
    await page.getByText("exited with code 3").first().waitFor();
    await page.locator("#log", { hasText: "about to fail" }).waitFor();
    await picture("job-failed");
    await page.click("[data-act=retry]");
    await page.locator("table.attempts tbody tr").nth(1).waitFor();
  },
  async "several rows are found, selected and cancelled together"() {
    for (let i = 0; i < 3; i += 1) await submit({ name: `batch-${i}`, gpus: 6, command: "sleep 60", timeout: "9m" }, "carl");
    await page.goto(`${url}/queue`);
    await forecast(page);
    await picture("queue");
    await page.fill("input[type=search]", "batch-");
    await until("three rows", async () => (await page.locator("tbody tr").count()) === 3);
    assert.match(page.url(), /q=batch-/, "the address says what is shown");
    await page.check("#pick-all");
    await page.locator("#bulk [data-act=cancel]").click();
    await page.locator("dialog[open] [value=no]").click();
    await page.locator("dialog[open]").waitFor({ state: "detached" });
    assert.match(await page.textContent("#bulk-count"), /3 jobs selected/, "who thinks again has chosen already");
    await page.locator("#bulk [data-act=cancel]").click();
    await page.locator("dialog[open] [value=yes]").click();
    await page.getByText("No running or waiting task matches this filter.").waitFor();
    await page.goto(`${url}/finished?state=cancelled`);
    await page.locator("tbody tr", { hasText: "batch-0" }).waitFor();
    await page.goto(`${url}/finished`);
    await page.locator("tbody tr").nth(4).waitFor();
    const failed = page.locator("tbody tr", { hasText: "fails" }).first();
    assert.equal(await failed.locator("[data-label='exit code']").textContent(), "3");
    assert.match(await failed.locator("[data-label=reason]").textContent(), /exited with code 3/);
    await picture("finished");
  },
  async "a table stays sorted while it is searched and filtered"() {
    const jobs = [];
    for (const name of ["order-b", "order-c", "order-a"]) jobs.push(await submit({ name, gpus: 6, command: "sleep 60", timeout: "9m" }, "carl"));
    const sort = async (way) => {
      await page.locator("thead a", { hasText: "job" }).click();
      await page.locator(`th[aria-sort=${way}]`, { hasText: "job" }).waitFor();
    };
    const shown = (names) => until(names, async () => (await page.locator("tbody th b").allTextContents()).join(" ") === names);
    await page.goto(`${url}/queue`);
    await sort("ascending");
    await page.fill("input[type=search]", "order-");
    await shown("order-a order-b order-c");
    await sort("descending");
    await page.selectOption("select[name=user]", "carl");
    await until("the address to say whose", () => /user=carl/.test(page.url()));
    assert.match(page.url(), /sort=-name/);
    await shown("order-c order-b order-a");
    await page.press("input[type=search]", "Enter");
    await page.waitForURL(/state=&/);
    assert.match(page.url(), /sort=-name/, "it is sent as it is shown");
    await page.locator("thead a", { hasText: "job" }).click();
    await until("the order to be the line's", async () => (await page.locator("th[aria-sort]").count()) === 0);
    await page.fill("input[type=search]", "order");
    await until("the address to say what is searched", () => /q=order(&|$)/.test(page.url()));
    assert.doesNotMatch(page.url(), /sort=/, "what is no longer sorted stays so");
    for (const job of jobs) await api("POST", `/v1/jobs/${job}/cancel`);
    await page.goto(`${url}/finished`);
    await sort("ascending");
    await page.fill("input[type=search]", "order-");
    await shown("order-a order-b order-c");
  },
  async "columns are chosen and stay chosen"() {
    await page.goto(`${url}/queue`);
    const head = (name) => page.locator(`thead .c-${name}`);
    for (const name of ["mode", "scope", "heard"]) assert.ok(await head(name).isHidden(), `${name} is hidden until it is chosen`);
    assert.ok(await head("limit").isVisible(), "the time limit is shown");
    assert.equal(await page.locator("tbody tr", { hasText: "train" }).first().locator("[data-label=limit]").textContent(), "10m");
    await page.locator(".columns > summary").click();
    await page.check(".columns [value=mode]");
    await page.uncheck(".columns [value=limit]");
    await page.reload();
    await head("mode").waitFor();
    assert.ok(await head("limit").isHidden());
    await page.evaluate(() => localStorage.removeItem("warpyard-columns-queue"));
  },
  async "a job shows its command first, is cloned and run again"() {
    const job = await submit({ name: "original", cpus: 0.1, command: "echo hello $GREETING", timeout: "7m", retries: 2, env: { GREETING: "you", API_TOKEN: "hunter2" } });
    await page.goto(`${url}/jobs/${job}`);
    await page.locator(".badge.big.succeeded").waitFor();
    const [command, log] = [await page.locator(".command").boundingBox(), await page.locator("#output").boundingBox()];
    assert.ok(command.y < log.y, "what it runs comes before what it printed");
    assert.equal(await page.locator(".command").textContent(), "echo hello $GREETING");
    assert.ok(await page.locator(".env").first().isHidden(), "the environment is folded");
    await page.getByRole("button", { name: "Run again" }).click();
    await page.locator("dialog[open] [value=yes]").click();
    await page.locator("table.attempts tbody tr").nth(1).waitFor();
    await page.locator(".badge.big.succeeded").waitFor();
    await page.getByRole("link", { name: "Clone" }).click();
    await page.waitForURL(/\/new\?clone=/);
    await page.getByText("the variable API_TOKEN").waitFor();
    assert.ok(!(await page.content()).includes("hunter2"), "a secret is not copied");
    await until("the form to be filled", async () => (await page.inputValue("#f-name")) === "original");
    assert.equal(await page.inputValue("[data-path='tasks[0].command']"), "echo hello $GREETING");
    assert.match(await page.inputValue("#toml"), /retries = 2/);
    await page.fill("#f-name", "copy");
    await until("a preview", () => page.locator("#submit").isEnabled());
    await page.click("#submit");
    await page.waitForURL(/\/jobs\/\d+$/);
    await page.getByRole("heading", { name: "copy" }).waitFor();
    const long = await submit({ name: "limited", cpus: 0.1, command: "sleep 60", timeout: "5m" });
    await page.goto(`${url}/jobs/${long}`);
    await page.locator(".facts", { hasText: /time left[45]m/ }).waitFor();
    await api("POST", `/v1/jobs/${long}/cancel`);
  },
  async "a graph is drawn with its states"() {
    await page.goto(`${url}/jobs/3`);
    await page.locator(".graph .node").nth(2).waitFor();
    await picture("job");
  },
  async "another policy is tried, put in force and taken back"() {
    for (const [name, timeout] of [["long", "2h"], ["short", "2m"]]) await submit({ name, gpus: 6, command: "sleep 50", timeout });
    await page.goto(`${url}/policies`);
    const choice = (name) => page.locator(`details[data-policy=${name}]`);
    assert.ok((await page.locator(".policies h2").count()) >= 4, "policies are grouped");
    for (const policy of await page.locator("details.policy").all()) {
      assert.ok((await policy.locator("summary .quiet").textContent()).length > 20, "each says when to choose it");
      assert.equal(await policy.locator("button").count(), 1, "and has one button");
    }
    assert.doesNotMatch(await page.textContent("[data-live=in-force]"), /\d{9}/, "no seconds since 1970");
    await page.locator("[data-live=in-force] time[data-date]").first().waitFor();
    await choice("short-first").locator("summary").click();
    await choice("short-first").locator(".order tbody tr", { hasText: "short" }).first().waitFor();
    const order = await choice("short-first").locator(".order tbody th b").allTextContents();
    assert.ok(order.indexOf("short") < order.indexOf("long"), order.join());
    assert.match(await page.textContent("#h-force"), /backfill/, "a preview changes nothing");
    await page.getByRole("button", { name: "Use short-first" }).click();
    await page.locator("#h-force", { hasText: "short-first" }).waitFor();
    await page.locator(".toast", { hasText: "policy is now short-first; it was backfill" }).waitFor();
    await page.locator("code", { hasText: "P = 1e9·0 − 1·120 + 1·" }).waitFor();
    await choice("fifo").locator("summary").click();
    await choice("fifo").locator(".order", { hasText: "The queue under fifo" }).waitFor();
    await page.setViewportSize({ width: 1440, height: 1200 });
    await page.evaluate(() => scrollTo(0, 0));
    await picture("policies", page, false);
    await page.setViewportSize({ width: 1440, height: 900 });
    await page.locator(".toast button", { hasText: "Undo" }).click();
    await page.locator("#h-force", { hasText: "backfill" }).waitFor();
    await page.locator(".toast", { hasText: "policy is backfill again" }).waitFor();
  },
  async "the cluster is drawn over time and a worker is drained"() {
    await page.goto(`${url}/cluster`);
    await page.locator(".chart").first().waitFor();
    await until("enough samples for a line", async () => ((await page.locator(".chart path.l0[data-values]").first().getAttribute("d")) ?? "").includes("L"));
    const memory = page.locator(".heat", { hasText: "GPU memory" });
    assert.equal(await memory.locator(".row").count(), 6, "a strip for each GPU");
    for (const chart of await page.locator(".chart").all()) {
      const [from, to] = [Number(await chart.getAttribute("data-from")), Number(await chart.getAttribute("data-to"))];
      assert.equal(to - from, 600_000, "ten minutes, however few samples there are");
      assert.deepEqual(await chart.locator(".axis text").allTextContents(), ["−10 min", "−8 min", "−6 min", "−4 min", "−2 min", "now"]);
    }
    assert.deepEqual((await page.locator(".lines", { hasText: "Tasks" }).locator(".y span").allTextContents()).map((label) => label.replace(/^\d+ ?/, "")), ["tasks", "tasks", ""], "the value axis has its unit");
    const plot = page.locator(".plot").first();
    await plot.hover();
    await page.locator(".chart.read").waitFor();
    await page.mouse.move(5, 5);
    await page.locator(".chart.read").waitFor({ state: "detached" });
    await plot.focus();
    await page.keyboard.press("ArrowLeft");
    await page.locator(".chart.read").waitFor();
    const read = await page.locator(".chart.read .when").textContent();
    assert.match(read, /\d/, "the keys read a value off it too");
    await page.keyboard.press("ArrowLeft");
    assert.notEqual(await page.locator(".chart.read .when").textContent(), read);
    await page.keyboard.press("Tab");
    await page.locator(".chart.read").waitFor({ state: "detached" });
    const drawn = await page.locator(".chart").first().getAttribute("data-moments");
    await until("the charts drawn anew", async () => (await page.locator(".chart").first().getAttribute("data-moments")) !== drawn);
    assert.equal(await page.locator(".chart.read").count(), 0, "the chart that has the focus now is not read until a key says so");
    await page.click("[data-act=drain]");
    await page.locator("[data-act=undrain]").click();
    await page.locator("[data-act=drain]").waitFor();
  },
  async "GPUs tell of themselves, and the past is replayed under other policies"() {
    const home = join(data, "measured"), library = join(home, "libnvidia-ml.so.1");
    mkdirSync(home);
    execFileSync(join(import.meta.dirname, "../../crates/worker/tests/fake-nvml/build.sh"), [library]);
    const gpu = (uuid, name, gib, ...lines) => [`gpu ${uuid}`, `name ${name}`, `memory ${gib * 2 ** 30}`, "reserved 0", ...lines].join("\n");
    const idle = ["used 0", "utilisation 0", "temperature 38", "power 41000"];
    const world = (first, second) => {
      const theirs = ["used 21474836480", "utilisation 98", "temperature 71", "power 248000", "compute 1 21474836480"];
      const v100 = (uuid, lines) => gpu(uuid, "Tesla V100-SXM2-16GB", 16, ...lines);
      writeFileSync(join(home, "next"), ["driver 550.54.15", v100("GPU-1", first), v100("GPU-2", second), gpu("GPU-3", "NVIDIA A100-PCIE-40GB", 40, ...theirs)].join("\n"));
      renameSync(join(home, "next"), `${library}.world`);
    };
    world(idle, idle);
    const args = ["up", "--json", "--data", join(home, "data"), "--listen", "127.0.0.1:0", "--cpus", "8"];
    const { started, ready } = begin(args, { LD_LIBRARY_PATH: home });
    const own = await browser.newContext({ viewport: { width: 1440, height: 900 } });
    own.setDefaultTimeout(PATIENCE);
    const there = await ready;
    const ask = asking(there.url, readFileSync(join(home, "data", "token"), "utf8").trim()), put = submitting(ask);
    try {
      const tab = await opened(own, pagesOf(there));
      await tab.goto(there.login);
      await tab.waitForURL(`${pagesOf(there)}/`);
      const people = ["ann", "bob", "carl", "dora"], gate = join(home, "gate");
      const held = { name: "train", gpus: 1, command: `echo $$ >${home}/on-$CUDA_VISIBLE_DEVICES; until [ -e ${gate} ]; do sleep 0.05; done`, timeout: "1m" };
      const lasting = (seconds) => ({ name: seconds > 2 ? "train" : "evaluate", gpus: 1, command: `sleep ${seconds}`, timeout: `${Math.ceil(seconds)}s` });
      for (const user of ["ann", "bob"]) await put(held, user);
      const waiting = [];
      for (const user of people) waiting.push(await put(lasting(user === "dora" ? 3 : 1), user));
      const tile = (id) => tab.locator(".tile", { hasText: id });
      const on = (uuid) => readFileSync(join(home, `on-${uuid}`), "utf8").trim();
      for (const id of ["/0", "/1"]) await tile(id).locator(".who li").first().waitFor();
      const busy = (pid, bytes, ...lines) => [`used ${bytes}`, `compute ${pid} ${bytes}`, ...lines];
      world(busy(on("GPU-1"), 9 * 2 ** 30, "utilisation 87", "temperature 64", "power 231000"), busy(on("GPU-2"), 5 * 2 ** 30, "utilisation 35", "temperature 51", "power 143000"));
      for (const reading of ["87 %", "64 °C", "231 W"]) await tile("/0").getByText(reading).waitFor();
      await tile("/2").getByText("other process").first().waitFor();
      await tab.locator(".board .starts").first().getByText(/^(in|within) \d/).waitFor();
      await picture("gpus", tab);
      world(idle, idle);
      for (const job of waiting) await ask("POST", `/v1/jobs/${job}/cancel`);
      writeFileSync(gate, "");
      for (let n = 0; n < 24; n += 1) await put(lasting(n % 5 === 1 ? 2.4 : 0.2 + (n % 5) / 10), people[n % 4]);
      await until("all of it to end", async () => (await ask("GET", "/v1/info")).waiting + (await ask("GET", "/v1/info")).running === 0);
      await tab.goto(`${pagesOf(there)}/what-if`);
      await tab.selectOption("[name=back]", "1h");
      assert.ok((await tab.locator(".picks fieldset").count()) >= 4, "policies are grouped");
      await tab.getByRole("button", { name: "Clear" }).click();
      assert.equal(await tab.locator("[name=policy]:checked").count(), 0);
      await tab.getByRole("button", { name: "Suggested policies" }).click();
      await tab.getByRole("button", { name: "Replay" }).click();
      await tab.locator("#replay-charts .bars").nth(5).waitFor();
      await until("the end of the replay", () => tab.locator("#replay-progress").isHidden());
      assert.match(await tab.textContent("#replay-trust"), /start in the same position/);
      assert.equal(await tab.locator("#replay-charts li").first().locator("tbody tr").count(), 6, "recorded, simulated, four policies");
      await picture("what-if", tab);
      await tab.goto(`${pagesOf(there)}/cluster`);
      await tab.locator(".heat", { hasText: "GPU utilisation" }).locator(".row").nth(2).waitFor();
      await picture("cluster", tab);
    } finally {
      await own.close();
      started.removeAllListeners("exit");
      await new Promise((ended) => { started.on("exit", ended); void ask("POST", "/v1/shutdown", { kill_tasks: true }).catch(() => {}); });
    }
  },
  async "what people wrote is shown and not obeyed"() {
    const nasty = "<img src=x onerror=alert(1)>\"'</script><script>alert(2)</script>";
    const job = await submit({ name: nasty, cpus: 0.1, command: "printf '<script>alert(3)</script>\\033[31mred \\342\\200\\256rtl\\n'; sleep 1", timeout: "1m", env: { API_TOKEN: "hunter2" } });
    let alerted = false;
    page.once("dialog", (dialog) => { alerted = true; dialog.dismiss(); });
    for (const path of ["/", "/queue", `/jobs/${job}`, "/finished"]) {
      await page.goto(url + path);
      await page.waitForTimeout(150);
      assert.equal(await page.locator("img[src=x]").count(), 0, path);
    }
    await page.goto(`${url}/jobs/${job}`);
    await page.locator("#log", { hasText: "<script>alert(3)</script>\\u{1b}[31mred \\u{202e}rtl" }).waitFor();
    assert.ok(!(await page.content()).includes("hunter2"), "a secret of the environment is hidden");
    assert.equal(alerted, false);
    for (const name of ["a\u0007b", "a\u202eb", "x".repeat(1 << 20)]) {
      const answer = await fetch(`${port}/v1/jobs`, { method: "POST", headers: { authorization: `Bearer ${token}`, "content-type": "application/json" }, body: JSON.stringify({ doc: { name, command: "true" } }) });
      assert.equal(answer.status, 422, "a name that cannot be shown is refused");
    }
  },
  async "the tabs of a browser share one stream"() {
    const other = await opened(), streams = { here: 0 };
    other.on("request", (request) => { if (request.url().includes("/v1/events")) streams.here += 1; });
    await page.goto(`${url}/queue`);
    await page.locator("#link[data-state=on]").waitFor();
    await other.goto(`${url}/queue`);
    await other.locator("#link[data-state=on]").waitFor();
    const job = await submit({ name: "seen-in-both", gpus: 6, command: "sleep 50", timeout: "4m" });
    for (const tab of [page, other]) await tab.locator("tbody tr", { hasText: "seen-in-both" }).waitFor();
    assert.equal(streams.here, 0, "the second tab opened no stream of its own");
    await page.goto("about:blank");
    await other.bringToFront();
    await until("the second tab to take over", () => streams.here > 0);
    await api("POST", `/v1/jobs/${job}/cancel`);
    await other.locator("tbody tr", { hasText: "seen-in-both" }).waitFor({ state: "detached" });
    await other.close();
    await page.goto(`${url}/queue`);
  },
  async "it is the same by the name of another machine, without encryption"() {
    const home = port.replace("127.0.0.1", "gpu1"), afar = await browser.newContext();
    afar.setDefaultTimeout(PATIENCE);
    const [first, second] = [await opened(afar, home), await opened(afar, home)], streams = { first: 0, second: 0 };
    for (const [name, tab] of [["first", first], ["second", second]]) {
      tab.on("request", (request) => { if (request.url().includes("/v1/events")) streams[name] += 1; });
    }
    await first.goto((await api("POST", "/v1/login")).login.replace(url, home));
    await first.waitForURL(`${home}/`);
    assert.equal(await first.evaluate(() => isSecureContext), false, "browsers keep some things from such pages");
    await first.goto(`${home}/new`);
    await first.locator(".task").first().waitFor();
    await first.fill("[data-path='tasks[0].command']", "true");
    await until("a preview", () => first.locator("#submit").isEnabled());
    await first.click("#submit");
    await first.waitForURL(/\/jobs\/\d+$/);
    await first.locator("#link[data-state=on]").waitFor();
    await second.goto(`${home}/queue`);
    await second.locator("#link[data-state=on]").waitFor();
    const job = await submit({ name: "seen-from-afar", gpus: 6, command: "sleep 50", timeout: "4m" });
    await second.locator("tbody tr", { hasText: "seen-from-afar" }).waitFor();
    assert.equal(streams.second, 0, "the second tab opened no stream of its own");
    await first.close();
    await until("the second tab to take over", () => streams.second > 0);
    await api("POST", `/v1/jobs/${job}/cancel`);
    await second.locator("tbody tr", { hasText: "seen-from-afar" }).waitFor({ state: "detached" });
    await afar.close();
  },
  async "a keyboard is enough"() {
    const job = await submit({ name: "typed-away", gpus: 6, command: "sleep 60", timeout: "4m" });
    await page.goto(`${url}/queue?q=typed-away`);
    await page.locator("tbody tr").first().waitFor();
    // Another tab may just have been in front; keys go nowhere until this one is.
    await page.bringToFront();
    await until("the page to have the keyboard", () => page.evaluate(() => document.hasFocus()));
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.className), "skip", "the first stop leads to the content");
    await page.keyboard.press("j");
    await page.keyboard.press("x");
    assert.match(await page.textContent("#bulk-count"), /1 job selected/);
    const focused = (of) => page.evaluate(of);
    for (let i = 0; i < 40 && (await focused(() => document.activeElement.dataset.act)) !== "cancel"; i += 1) await page.keyboard.press("Shift+Tab");
    await page.keyboard.press("Enter");
    await page.locator("dialog[open]").waitFor();
    assert.equal(await focused(() => document.activeElement.value), "no", "what changes nothing has the focus");
    await page.keyboard.press("Shift+Tab");
    await page.keyboard.press("Enter");
    await until("it to be cancelled", async () => (await api("GET", `/v1/jobs/${job}`)).state === "done");
    await page.keyboard.press("/");
    assert.equal(await page.evaluate(() => document.activeElement.type), "search");
    await page.keyboard.type("nobody-has-this-name");
    await page.getByText("No running or waiting task matches this filter.").waitFor();
    const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
    assert.notEqual(outline, "none", "what has the focus shows it");
  },
  async "a phone is wide enough"() {
    const phone = await browser.newContext({ viewport: { width: 390, height: 844 }, storageState: await context.storageState() });
    const small = await opened(phone);
    for (const [name, path] of [["now", "/"], ["queue", "/queue"], ["finished", "/finished"], ["job", "/jobs/3"], ["new", "/new"], ["cluster", "/cluster"], ["policies", "/policies"], ["what-if", "/what-if"], ["docs", "/docs"]]) {
      await small.goto(url + path);
      await small.locator("h1").waitFor();
      const over = await small.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(over <= 0, `${path} is ${over} px too wide`);
      const outside = await small.evaluate(() => [...document.querySelectorAll(".top nav a")].filter((a) => { const at = a.getBoundingClientRect(); return at.left < 0 || at.right > innerWidth; }).map((a) => a.textContent));
      assert.deepEqual(outside, [], `${path}: the whole menu fits`);
      if (path !== "/") await picture(`${name}-phone`, small);
      // A window of 1440 at twice the zoom.
      await small.setViewportSize({ width: 720, height: 450 });
      const zoomed = await small.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(zoomed <= 0, `${path} is ${zoomed} px too wide at twice the zoom`);
      if (path === "/") await picture("now-zoomed", small);
      await small.setViewportSize({ width: 390, height: 844 });
    }
    await small.goto(`${url}/queue`);
    const row = await small.locator("tbody tr").first().boundingBox();
    assert.ok(row.y < 260, `the queue comes before its controls: its first row is at ${row.y} px`);
    await small.goto(`${url}/finished`);
    await small.locator(".controls > summary").click();
    await small.locator("thead a", { hasText: "waited" }).click();
    await small.locator("th[aria-sort=ascending]", { hasText: "waited" }).waitFor();
    await small.goto(`${url}/policies`);
    const fifo = small.locator("details[data-policy=fifo]");
    await fifo.locator("summary").click();
    await until("the new order to be in sight", async () => (await fifo.locator(".order").textContent()).includes("fifo") || (await fifo.locator(".order").textContent()).includes("empty"));
    await phone.close();
  },
  async "it is dark where that is asked for"() {
    const night = await browser.newContext({ viewport: { width: 1440, height: 900 }, colorScheme: "dark", storageState: await context.storageState() });
    const dark = await opened(night);
    for (const [name, path] of [["now", "/"], ["queue", "/queue"], ["job", "/jobs/3"], ["new", "/new"], ["cluster", "/cluster"], ["policies", "/policies"], ["what-if", "/what-if"]]) {
      await dark.goto(url + path);
      await dark.locator("h1").waitFor();
      const [back, ink] = await dark.evaluate(() => [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]);
      const light = (rgb) => rgb.match(/\d+/g).slice(0, 3).reduce((sum, n) => sum + Number(n), 0);
      assert.ok(light(back) < 150 && light(ink) > 500, `${path}: ${ink} on ${back}`);
      if (path !== "/") await picture(`${name}-dark`, dark);
    }
    await night.close();
  },
  async "a simulation has a clock that is stopped, slowed and sped up"() {
    const jobs = ["--generate", "600", "--gap", "8s", "--users", "5", "--gpus", "1:3,2:1", "--gpu-memory", "6GiB:2,whole:1"];
    const { started: shown, ready: begun } = begin(["sim", "--cluster", "6xV100:16GiB,2xA100:40GiB", ...jobs, "--serve", "--speed", "60", "--json"], { TMPDIR: data });
    const own = await browser.newContext({ viewport: { width: 1440, height: 900 } });
    try {
      const ready = await begun;
      const place = readdirSync(data).find((name) => name.startsWith("warpyard-sim-"));
      const key = readFileSync(join(data, place, "token"), "utf8").trim();
      const ask = async (method, body) => (await fetch(`${ready.url}/v1/simulation`, { method, headers: { authorization: `Bearer ${key}`, "content-type": "application/json" }, body: body && JSON.stringify(body) })).json();
      const first = await opened(own, pagesOf(ready)), second = await opened(own, pagesOf(ready));
      await first.goto(ready.login);
      await first.waitForURL(`${pagesOf(ready)}/`);
      const clock = () => first.textContent(".sim-clock");
      const began = await clock();
      await until("its clock to go on", async () => (await clock()) !== began);
      await until("tasks to run", async () => (await first.locator(".tiles .who li").count()) > 3);
      await second.goto(`${pagesOf(ready)}/queue`);
      await first.getByRole("button", { name: "Pause" }).click();
      for (const tab of [first, second]) await tab.locator(".sim-state", { hasText: "paused" }).waitFor();
      await forecast(first);
      await picture("simulation", first);
      const stopped = await ask("GET");
      assert.equal(stopped.paused, true);
      await first.waitForTimeout(400);
      assert.equal((await ask("GET")).now, stopped.now, "nothing happens while it stands still");
      await first.getByRole("button", { name: "Faster" }).click();
      await first.locator(".sim-speed", { hasText: "120×" }).waitFor();
      await ask("PUT", { paused: false, speed: 3600 });
      await first.getByText("1 h a second").waitFor();
      await first.bringToFront();
      await first.keyboard.press("p");
      await first.locator(".sim-state", { hasText: "paused" }).waitFor();
      await ask("PUT", { paused: false, speed: 604800 });
      await first.getByText("every job has ended").waitFor();
      assert.equal((await ask("GET")).over, true);
      await first.goto(`${pagesOf(ready)}/finished`);
      await first.locator("tbody tr").nth(20).waitFor();
    } finally {
      await own.close();
      shown.removeAllListeners("exit");
      shown.kill("SIGTERM");
    }
  },
  async "the tables of a study fit its page"() {
    const report = join(data, "study.html");
    const jobs = ["--generate", "60", "--gap", "30s", "--users", "4", "--priorities", "5", "--repeat", "3"];
    execFileSync(warpyard, ["compare", "--policies", "fifo,backfill,short-first,fair-share", "--cluster", "8xV100:16GiB", ...jobs, "--report", report], { stdio: "ignore" });
    const own = await browser.newContext({ viewport: { width: 1280, height: 800 } });
    const study = await own.newPage();
    await study.goto(`file://${report}`);
    const over = () => study.evaluate(() => [...document.querySelectorAll(".table")].map((box) => box.scrollWidth - box.clientWidth));
    assert.deepEqual([...new Set(await over())], [0], "no table is wider than the page");
    await study.setViewportSize({ width: 390, height: 844 });
    assert.ok(await study.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "on a phone a table scrolls, the page does not");
    await own.close();
  },
  async "a connection that is lost is said to be, and comes back"() {
    await page.goto(url);
    await page.locator("#link[data-state=on]").waitFor();
    await killed();
    await page.locator("#link[data-state=off]").waitFor();
    await page.getByText("disconnected, reconnecting").waitFor();
    await up(new URL(port).host);
    // Logins are kept: a screen on a wall goes on by itself, also after its server was killed.
    await page.locator("#link[data-state=on]").waitFor();
    const after = await submit({ name: "after-the-kill", command: "true" });
    await page.goto(`${url}/jobs/${after}`);
    await page.getByRole("heading", { name: "after-the-kill", level: 1 }).waitFor();
  },
};

let failed = 0;
for (const [name, story] of Object.entries(stories)) {
  const began = Date.now();
  try {
    await story();
    console.log(`ok    ${name} (${((Date.now() - began) / 1000).toFixed(1)} s)`);
  } catch (error) {
    failed += 1;
    console.log(`WRONG ${name}\n${error.stack}`);
    await page.screenshot({ path: join(tmpdir(), "warpyard-browser-wrong.png") }).catch(() => {});
  }
}
if (wrong.length) { failed += 1; console.log(`WRONG something went wrong in a page\n${[...new Set(wrong)].join("\n")}`); }
await browser.close();
await new Promise((ended) => { server.removeAllListeners("exit"); server.on("exit", ended); void api("POST", "/v1/shutdown", { kill_tasks: true }).catch(() => {}); });
rmSync(data, { recursive: true, force: true });
console.log(failed ? `${failed} went wrong` : "all as it should be");
process.exit(failed ? 1 : 0);
