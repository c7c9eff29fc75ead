// Data of the core: REST requests, the stream of events, and the hooks through which the pages use both.
//
// A page names what it shows (`useData`). Its data are loaded again when the core reports events, with a pause that
// grows with the time a response takes, so that a viewer uses a small part of the core. Pausing stops all requests.
import { useEffect, useRef, useState } from './html.js';
import { shownTime } from './words.js';

const BASE = new URL('../ws/v1/', document.baseURI); // relative, so that a path prefix of a proxy stays
const TOKEN = 'muster-token';
const LEAST_MS = 1000, MOST_MS = 10000, SHARE = 20;
const EVENTS = 500;

/** What the shell shows of the connection. Changed by `update`. */
export const live = { at: 0, paused: false, needsToken: '', problem: '', changes: 0, events: [], streaming: false };
const listeners = new Set();

function update(changes) {
  Object.assign(live, changes);
  for (const listener of [...listeners]) listener();
}

/** Renders the component again when `live` changes. `pick` selects what matters to it. */
export function useLive(pick) {
  const [value, set] = useState(pick(live));
  useEffect(() => {
    const listener = () => set(pick(live));
    listeners.add(listener);
    listener();
    return () => listeners.delete(listener);
  }, []);
  return value;
}

/** What the core refuses at an earlier time. */
const OF_NOW = /^(clusters|config|history\/|scheduler\/healthcheck)|\/events\b/;

/** Shows all pages at an earlier time, in ms; 0 = now. It is in the address, so that it can be shared. */
export function setTime(at) {
  shownTime.at = at;
  stream?.abort();
  history.replaceState(null, '', `${location.pathname}${at ? `?at=${at}` : ''}${location.hash}`);
  update({ at, events: [], changes: live.changes + 1 });
}

/** The path of a view at the time that is shown. */
const timed = (path, at) => (at ? `${path}${path.includes('?') ? '&' : '?'}at=${at}` : path);

export function pause(paused) {
  update({ paused });
  if (paused) stream?.abort();
}

/** Uses the token for this tab. It is in no address and in no lasting storage. */
export function setToken(token) {
  if (token) sessionStorage.setItem(TOKEN, token); else sessionStorage.removeItem(TOKEN);
  known.clear();
  update({ needsToken: '', changes: live.changes + 1 });
}

export const hasToken = () => Boolean(sessionStorage.getItem(TOKEN));

/** A name as part of a path. REST unescapes it twice, as YuniKorn does. */
export const segment = (name) => encodeURIComponent(encodeURIComponent(name));

async function request(path, signal, more = {}) {
  const token = sessionStorage.getItem(TOKEN);
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const response = await fetch(new URL(path, BASE), { headers, signal, cache: 'no-cache', redirect: 'error', ...more });
  if (response.ok) return response;
  const message = await response.json().then((body) => body.message, () => response.statusText);
  if (response.status === 401 || (response.status === 403 && token)) update({ needsToken: message });
  throw Object.assign(new Error(message), { status: response.status });
}

/** Responses by path, so that a page that is opened again shows something at once. */
const known = new Map();

async function getJson(path, signal) {
  const response = await request(path, signal);
  const etag = response.headers.get('ETag'), before = known.get(path);
  if (etag && before?.etag === etag) return before.data;
  const isJson = (response.headers.get('Content-Type') || '').includes('json');
  const data = await (isJson ? response.json() : response.text());
  known.delete(path);
  known.set(path, { etag, data });
  if (known.size > 40) known.delete(known.keys().next().value);
  return data;
}

/** All entries of a list, requested in parts; `show` gets what has arrived. */
async function getList(path, size, signal, show) {
  const found = [];
  const join = path.includes('?') ? '&' : '?';
  for (let part = null; part === null || part.length === size;) {
    const response = await request(`${path}${join}offset=${found.length}&limit=${size}`, signal);
    part = await response.json();
    found.push(...part);
    show(found.slice());
  }
  known.set(path, { data: found });
  return found;
}

/** Waits until something may have changed: at least `least` ms, at most `most` ms, and while nobody looks. */
function nextChange(seen, least, most, signal) {
  return new Promise((resolve) => {
    const began = performance.now();
    const check = () => {
      const waited = performance.now() - began;
      const isDue = signal.aborted || (waited >= least && live.changes !== seen) || waited >= most;
      if (!signal.aborted && (!isDue || live.paused || document.hidden)) return;
      clearInterval(timer);
      listeners.delete(check);
      resolve();
    };
    const timer = setInterval(check, 250);
    listeners.add(check);
  });
}

/**
 * The JSON of a REST path, or null while the path is empty: { data, error, at }. Old data stay while new are loaded.
 * `pageSize`: the path is a list, which is requested in parts. `slow`: a factor for pages that change rarely. `isNow`: the
 * present at any time that is shown.
 */
export function useData(untimed, { pageSize = 0, slow = 1, isNow = false } = {}) {
  const [state, set] = useState({});
  const at = useLive((now) => (isNow ? 0 : now.at));
  const path = untimed && timed(untimed, at);
  useEffect(() => {
    if (!path) return undefined;
    if (at && OF_NOW.test(untimed)) { set({ path, error: new Error('Only the present is known.') }); return undefined; }
    const abort = new AbortController();
    let complete = known.has(path);
    set({ path, data: known.get(path)?.data });
    const show = (data) => complete || set({ path, data, isPartial: true });
    (async () => {
      while (!abort.signal.aborted) {
        const began = performance.now(), seen = live.changes;
        try {
          const data = pageSize ? await getList(path, pageSize, abort.signal, show) : await getJson(path, abort.signal);
          complete = true;
          set((before) => (before.data === data && !before.error && !before.isPartial ? before : { path, data, at: at || Date.now() }));
          if (at) return; // the past does not change
          if (live.problem) update({ problem: '' });
        } catch (error) {
          if (abort.signal.aborted) return;
          set((before) => ({ ...before, path, error }));
          if (!error.status) update({ problem: 'The core does not respond.' });
        }
        const took = at ? 0 : (performance.now() - began) * SHARE * slow; // a long replay continues when it is asked again
        await nextChange(seen, Math.max(LEAST_MS * slow, took), Math.max(MOST_MS * slow, took), abort.signal);
      }
    })();
    return () => abort.abort();
  }, [path]);
  return state.path === path ? state : {};
}

/** A text, requested once. */
export const getText = async (path) => (await request(path)).text();

/**
 * A question that takes seconds, asked when the user wants: [{ data, error, at, isAsking }, ask(paths, body)]. `data`: the
 * JSON of each path. With a body it is sent by POST. Another question, or leaving the page, cancels the one before.
 */
export function useQuestion() {
  const [state, set] = useState({});
  const pending = useRef(null);
  useEffect(() => () => pending.current?.abort(), []);
  const ask = async (paths, body) => {
    pending.current?.abort();
    const { signal } = (pending.current = new AbortController());
    set({ isAsking: true });
    try {
      const data = [];
      for (const path of paths) data.push(await (await request(path, signal, body === undefined ? {} : { method: 'POST', body })).json());
      set({ data, at: Date.now() });
    } catch (error) {
      if (!signal.aborted) set({ error, at: Date.now() });
    }
  };
  return [state, ask];
}

// --- events ----------------------------------------------------------------------------------------------------------

let stream = null;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Reads the stream of events for as long as the page is open. Without it, data are loaded every ten seconds. */
export async function readEvents() {
  for (;;) {
    let pauseMs = 3000;
    if (!live.at && !live.paused && !document.hidden && !live.needsToken) {
      stream = new AbortController();
      try {
        const response = await request('events/stream?count=200', stream.signal);
        update({ events: [], streaming: true });
        await readLines(response.body.getReader());
      } catch (error) {
        if (error.status) pauseMs = 60000; // no tracking, or too many streams
      }
      stream = null;
      if (live.streaming) update({ streaming: false });
    }
    await sleep(live.at || live.paused || document.hidden || live.needsToken ? 250 : pauseMs);
  }
}

// Lines that have arrived since the last update: a busy core sends thousands per second.
let gathered = [], flush = null;
const FLUSH_MS = 200;

/** The object of a line; none if a proxy has cut it. */
const parsed = (line) => { try { return JSON.parse(line); } catch { return null; } };

function showEvents() {
  const lines = gathered;
  gathered = [];
  flush = null;
  const fresh = lines.map(parsed).filter((record) => record && 'type' in record);
  if (fresh.length && !live.paused) update({ events: [...live.events, ...fresh].slice(-EVENTS), changes: live.changes + 1 });
}

async function readLines(reader) {
  const decoder = new TextDecoder();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + decoder.decode(value, { stream: true })).split('\n');
    rest = lines.pop();
    gathered = [...gathered, ...lines].slice(-EVENTS); // a hidden tab shows nothing for minutes
    flush ??= setTimeout(showEvents, FLUSH_MS);
  }
}

// Numbers of the Scheduler Interface (EventRecord).
const TYPES = ['', 'pod', 'application', 'node', 'queue', 'user'];
const DETAILS = {
  100: 'request withdrawn', 101: 'allocated', 102: 'request timed out', 200: 'allocation', 201: 'request',
  202: 'rejected', 203: 'new', 204: 'accepted', 205: 'starting', 206: 'running', 207: 'completing', 208: 'completed',
  209: 'failing', 210: 'failed', 211: 'resuming', 212: 'expired', 213: 'waits for the applications of its queue',
  214: 'may run', 215: 'waits for the applications of its user', 216: 'may run', 300: 'removed', 301: 'ready',
  302: 'schedulable', 303: 'allocation', 304: 'capacity', 305: 'occupied', 306: 'reservation', 400: 'configuration',
  401: 'dynamic queue', 402: 'type', 403: 'maximum', 404: 'guarantee', 405: 'application', 406: 'allocation',
  407: 'quota preemption', 500: 'cancelled', 501: 'preempted', 502: 'timed out', 503: 'placeholder replaced',
  504: 'removed with its node', 600: 'user limit', 601: 'group limit', 602: 'group', 603: 'usage', 604: 'usage',
};
const CHANGES = ['', 'set', 'added', 'removed'];
export const PREEMPTED = 501, QUOTA_PREEMPTION = 407;

/** An event as words. */
export const eventWords = (record) => ({
  about: TYPES[record.type] || '',
  what: [DETAILS[record.eventChangeDetail], CHANGES[record.eventChangeType]].filter(Boolean).join(', ') || 'notice',
});

/** The newest events in the ring buffer of the core, at most `most`. */
export async function fetchEvents(most) {
  const { LowestID: low, HighestID: high } = await (await request('events/batch?count=1')).json();
  if (high < 0) return [];
  const found = await (await request(`events/batch?start=${Math.max(low, high - most + 1)}&count=${most}`)).json();
  return found.EventRecords || [];
}
