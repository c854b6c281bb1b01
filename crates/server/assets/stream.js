// The event stream (/v1/events), shared by all tabs of the browser: one tab, the leader, holds the connection and passes
// messages on; when it closes, another takes over.
import { randomId } from "./api.js";

const LEADER = "warpyard-stream";
const LEASE = 3000;
const RECONNECT = 2000;

const channel = new BroadcastChannel("warpyard");
let stream = null;

// Calls `handle` with every message: { state: "on" | "off" } or { seq, notice | reset }. `after` gives the last event
// known, from which a new connection resumes; `reconnected` runs whenever a connection was lost for good.
export const followEvents = ({ handle, after, reconnected }) => {
  const publish = (message) => { handle(message); channel.postMessage(message); };

  const connect = () => new Promise((lost) => {
    stream = new EventSource(`/v1/events?after=${after()}`);
    stream.onopen = () => publish({ state: "on" });
    stream.onerror = () => {
      publish({ state: "off" });
      if (stream.readyState !== EventSource.CLOSED) return;
      stream = null;
      setTimeout(lost, RECONNECT);
    };
    stream.onmessage = (event) => publish({ seq: event.lastEventId, notice: JSON.parse(event.data) });
    stream.addEventListener("reset", (event) => publish({ seq: event.lastEventId, reset: true }));
  });

  const lead = async (stillLeads) => {
    while (stillLeads()) { await connect(); await reconnected(); }
  };

  channel.onmessage = (event) => {
    if (!event.data.hello) return handle(event.data);
    if (stream) channel.postMessage({ state: stream.readyState === EventSource.OPEN ? "on" : "off" });
  };
  if (navigator.locks) navigator.locks.request(LEADER, () => lead(() => true)); else leadByLease(lead);
  channel.postMessage({ hello: true });
};

// Elects the leader where browsers offer no locks, which is on pages that came unencrypted from another machine. The
// leader renews a lease in the local storage every second; one that has expired belongs to a tab that closed or sleeps.
const leadByLease = (lead) => {
  const me = randomId();
  let leads = false, term = 0;
  const holder = () => { try { return JSON.parse(localStorage.getItem(LEADER)) || {}; } catch { return {}; } };

  const resign = () => { leads = false; stream?.close(); stream = null; };
  const takeOver = () => {
    if (leads || holder().id !== me) return;
    const mine = (term += 1);
    leads = true;
    void lead(() => leads && term === mine);
  };
  const renew = () => {
    const { id, at } = holder();
    if (id !== me && Date.now() - at < LEASE) { if (leads) resign(); return; }
    localStorage.setItem(LEADER, JSON.stringify({ id: me, at: Date.now() }));
    // Two tabs may have found the lease free at once: the last to write it has it.
    if (!leads) setTimeout(takeOver, 50);
  };

  window.addEventListener("storage", (event) => { if (event.key === LEADER) renew(); });
  window.addEventListener("pagehide", () => { if (leads && holder().id === me) localStorage.removeItem(LEADER); });
  setInterval(renew, 1000);
  renew();
};
