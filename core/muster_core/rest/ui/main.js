// The shell: navigation, the selected page, keys, colours, the pause button, and the place for a token.
import { html, render, useEffect, useRef, useState } from './html.js';
import { hasToken, live, pause, readEvents, setTime, setToken, useData, useLive } from './data.js';
import { Choice, Missing, open } from './parts.js';
import { clock, printable } from './words.js';

const PAGES = {
  overview: 'Overview', queues: 'Queues', applications: 'Applications', nodes: 'Nodes', users: 'Users',
  preemptions: 'Preemptions', 'what-if': 'What if', reports: 'Reports', health: 'Health',
};
const KEYS = [['/', 'search'], ['j, k', 'next and previous row'], ['Enter', 'open the row'], ['Esc', 'close, or leave the search'],
  ['p', 'pause or continue'], ['g, then the first letter', 'go to a page'], ['?', 'this list']];

/** The page of the address: its name, the parts after it, and the filters. */
function parseAddress() {
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?', 2);
  const parts = path.split('/').map((part) => { try { return decodeURIComponent(part); } catch { return part; } });
  return { page: Object.hasOwn(PAGES, parts[0]) ? parts[0] : 'overview', parts: parts.slice(1), query: new URLSearchParams(query) };
}

const loaded = {};

const NotLoaded = () => html`<p class="empty" role="alert">This page could not be loaded.
  ${' '}<button type="button" class="filter" onClick=${() => location.reload()}>Load again</button></p>`;

/** The component of a page, loaded at its first use. One application has a page of its own. */
function usePage(address) {
  const name = address.page === 'applications' && address.parts.length === 2 ? 'application' : address.page;
  const [result, set] = useState({});
  useEffect(() => {
    if (!loaded[name]) import(`./${name}.js`).then((module) => { loaded[name] = module.default; set({ name }); }, () => set({ failed: name }));
  }, [name]);
  // A browser remembers that a module failed, so only loading everything again helps.
  return loaded[name] || (result.failed === name ? NotLoaded : undefined);
}

// --- colours ---------------------------------------------------------------------------------------------------------

const THEME = 'muster-theme';
const setTheme = (theme) => {
  document.documentElement.dataset.theme = theme;
  localStorage.setItem(THEME, theme);
  dispatchEvent(new Event('muster-theme'));
};
document.documentElement.dataset.theme = localStorage.getItem(THEME) || 'auto';
const isDark = () => {
  const { theme } = document.documentElement.dataset;
  return theme === 'dark' || (theme === 'auto' && matchMedia('(prefers-color-scheme: dark)').matches);
};

// --- keys ------------------------------------------------------------------------------------------------------------

let isGoing = false;

function onKey(event, showHelp) {
  const isTyping = event.target.closest('input, textarea, select');
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === 'Escape') {
    if (isTyping) event.target.blur();
    else dispatchEvent(new Event('muster-close'));
    return;
  }
  if (isTyping) return;
  const row = (step) => dispatchEvent(new CustomEvent('muster-row', { detail: step }));
  const goes = isGoing;
  isGoing = event.key === 'g';
  if (goes) {
    const page = Object.keys(PAGES).find((name) => name[0] === event.key);
    if (page) open(`#/${page}`);
  } else if (event.key === '/') {
    document.querySelector('.search')?.focus();
    event.preventDefault();
  } else if (event.key === 'j') row(1);
  else if (event.key === 'k') row(-1);
  else if (event.key === 'Enter' && !event.target.closest('a, button')) row('open');
  else if (event.key === 'p') pause(!live.paused);
  else if (event.key === '?') showHelp(true);
}

const ICONS = {
  clock: 'M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13zm0 1.5a5 5 0 1 1 0 10A5 5 0 0 1 8 3zM7.3 4.5h1.4v3.2l2.2 1.3-.7 1.2-2.9-1.7z',
  pause: 'M5 3h2v10H5zM9 3h2v10H9z', play: 'M5 3l8 5-8 5z',
  sun: 'M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM7.4 1h1.2v2.4H7.4zM7.4 12.6h1.2V15H7.4zM1 7.4h2.4v1.2H1zM12.6 7.4H15v1.2h-2.4zM2.6 3.5l.9-.9 1.7 1.7-.9.9zM10.8 11.7l.9-.9 1.7 1.7-.9.9zM2.6 12.5l1.7-1.7.9.9-1.7 1.7zM10.8 4.3l1.7-1.7.9.9-1.7 1.7z',
  moon: 'M7 2a6 6 0 1 0 7 7.4A5 5 0 0 1 7 2z',
  key: 'M10.5 2a3.5 3.5 0 0 0-3.3 4.6L2 11.8V14h2.6v-1.6h1.6v-1.6h1.6l1.1-1.1A3.5 3.5 0 1 0 10.5 2zm.9 1.7a.9.9 0 1 1 0 1.8.9.9 0 0 1 0-1.8z',
};
const Icon = ({ path }) => html`<svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true"><path d=${path} fill="currentColor" fill-rule="evenodd" /></svg>`;

// --- parts of the shell ----------------------------------------------------------------------------------------------

/** A modal dialog of the browser, which keeps the focus and closes with Escape. */
function Dialog({ title, onClose, children }) {
  const box = useRef(null);
  useEffect(() => { box.current.showModal(); }, []);
  return html`<dialog ref=${box} aria-labelledby="dialog-title" onClose=${onClose}>
    <h2 id="dialog-title">${title}</h2>${children}
  </dialog>`;
}

function TokenDialog({ reason, onClose }) {
  const field = useRef(null);
  const use = () => setToken(field.current.value.trim());
  return html`<${Dialog} title="Token" onClose=${onClose}>
    <p>${reason ? `The core answers: ${printable(reason)}.` : 'The core may need a bearer token.'}
      ${' '}The token stays in this tab until it is closed. For example:</p>
    <pre>kubectl create token ACCOUNT -n NAMESPACE</pre>
    <label class="field"><span>Bearer token</span>
      <input ref=${field} type="password" autocomplete="off" spellcheck=${false} onKeyDown=${(event) => event.key === 'Enter' && use()} /></label>
    <p class="buttons"><button type="button" class="primary" onClick=${use}>Use token</button>
      ${hasToken() && html`<button type="button" onClick=${() => setToken('')}>Forget it</button>`}
      <button type="button" onClick=${onClose}>Close</button></p>
  <//>`;
}

/** The value of a time field, in the time zone of the browser. */
const fieldValue = (at) => new Date(at - new Date(at).getTimezoneOffset() * 60000).toISOString().slice(0, 19);

function TimeDialog({ onClose }) {
  const clusters = useData('clusters', { slow: 6, isNow: true });
  const [at, setAt] = useState(live.at || Date.now());
  const start = Math.min(...(clusters.data || []).map((one) => one.startTime / 1e6), at);
  const use = (time) => { setTime(time); onClose(); };
  return html`<${Dialog} title="Time machine" onClose=${onClose}>
    <p>All pages at an earlier time, which the core computes from its journal. It needs the option <code>--journal FILE</code> of the core.</p>
    <label class="field"><span>Time</span><input type="datetime-local" step="1" value=${fieldValue(at)}
      onInput=${(event) => event.target.value && setAt(new Date(event.target.value).getTime())} /></label>
    <label class="field"><span>Since the start of the core</span><input type="range" min=${Math.floor(start)} max=${Date.now()} step="1000" value=${at}
      onInput=${(event) => setAt(Number(event.target.value))} /></label>
    <p class="buttons"><button type="button" class="primary" onClick=${() => use(at)}>Show this time</button>
      <button type="button" onClick=${() => use(0)}>Now</button>
      <button type="button" onClick=${onClose}>Close</button></p>
  <//>`;
}

function Status() {
  const at = useLive((state) => state.at);
  const now = useLive((state) => (state.paused ? 'paused' : state.problem ? 'offline' : state.streaming ? 'live' : 'polling'));
  const problem = useLive((state) => state.problem);
  const words = { paused: 'Paused', offline: 'Offline', live: 'Live', polling: 'Every 10 s' };
  if (at) {
    return html`<button type="button" class="chip past" onClick=${() => setTime(0)} title="Back to now">${clock(at * 1e6)}<span aria-hidden="true"> ×</span></button>`;
  }
  return html`<span class=${`status ${now}`} role="status" title=${problem || undefined}><i></i>${words[now]}</span>`;
}

function Shell() {
  const [address, setAddress] = useState(parseAddress);
  const [dialog, show] = useState('');
  const [dark, setDark] = useState(isDark);
  const paused = useLive((state) => state.paused);
  const needsToken = useLive((state) => state.needsToken);
  const at = useLive((state) => state.at);
  const partitions = useData('partitions', { slow: 3 });
  const Page = usePage(address);
  useEffect(() => {
    const onHash = () => setAddress(parseAddress());
    const onTheme = () => setDark(isDark());
    const keys = (event) => onKey(event, () => show('help'));
    addEventListener('hashchange', onHash);
    addEventListener('keydown', keys);
    addEventListener('muster-theme', onTheme);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', onTheme);
    const { searchParams } = new URL(location.href);
    if (searchParams.has('at')) setTime(Number(searchParams.get('at')) || 0);
    readEvents();
  }, []);
  useEffect(() => { if (needsToken) show('token'); else show((old) => (old === 'token' ? '' : old)); }, [needsToken]);
  useEffect(() => {
    document.title = `${PAGES[address.page]} · Muster`;
    document.querySelector('[aria-current]')?.scrollIntoView({ inline: 'nearest', block: 'nearest' });
  }, [address.page]);

  const names = (partitions.data || []).map((partition) => partition.name);
  const chosen = address.query.get('partition');
  const partition = names.includes(chosen) ? chosen : names[0];
  const close = () => show('');
  return html`
    <header class="top">
      <a class="brand" href="#/overview"><img src="icon.svg" alt="" width="22" height="22" />Muster</a>
      <nav aria-label="Pages">${Object.entries(PAGES).map(([name, words]) => html`
        <a key=${name} href=${`#/${name}`} aria-current=${name === address.page ? 'page' : undefined}>${words}</a>`)}</nav>
      <div class="tools">
        ${names.length > 1 && html`<${Choice} label="Partition" value=${partition} options=${names.map((name) => [name, name])}
          onChange=${(name) => open(`#/${address.page}?${new URLSearchParams({ partition: name })}`)} />`}
        <${Status} />
        <button type="button" class="icon" onClick=${() => show('time')} title="Time machine" aria-label="Time machine"><${Icon} path=${ICONS.clock} /></button>
        <button type="button" class="icon" aria-pressed=${paused} onClick=${() => pause(!paused)} title="Pause updates (p)"
          aria-label="Pause updates"><${Icon} path=${paused ? ICONS.play : ICONS.pause} /></button>
        <button type="button" class="icon" onClick=${() => setTheme(dark ? 'light' : 'dark')} title="Light or dark"
          aria-label="Light or dark"><${Icon} path=${dark ? ICONS.sun : ICONS.moon} /></button>
        <button type="button" class="icon" onClick=${() => show('token')} title="Token" aria-label="Token"><${Icon} path=${ICONS.key} /></button>
        <button type="button" class="icon" onClick=${() => show('help')} title="Keys (?)" aria-label="Keys">?</button>
      </div>
    </header>
    <main class=${`page-${address.page}`}>
      ${at > 0 && address.page === 'what-if' && html`<p class="note">The answers are about the present.</p>`}
      ${partitions.data && !names.length ? html`<p class="empty">No operator has registered with this core. If several operators
        run, only the core of the leader has the state of the cluster.</p>`
    : Page && partition ? html`<${Page} key=${`${partition}${address.page === 'applications' ? address.parts.join('/') : ''}`} partition=${partition} parts=${address.parts} query=${address.query} />`
      : html`<${Missing} of=${partitions} what="the cluster" />`}
    </main>
    ${dialog === 'help' && html`<${Dialog} title="Keys" onClose=${close}>
      <dl class="facts">${KEYS.map(([key, words]) => html`<dt><kbd>${key}</kbd></dt><dd>${words}</dd>`)}</dl>
      <p class="buttons"><button type="button" onClick=${close}>Close</button></p><//>`}
    ${dialog === 'time' && html`<${TimeDialog} onClose=${close} />`}
    ${dialog === 'token' && html`<${TokenDialog} reason=${needsToken} onClose=${close} />`}`;
}

render(html`<${Shell} />`, document.body);
