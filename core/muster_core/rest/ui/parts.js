// Components that several pages use: links, bars, chips, charts, and the table of any number of rows.
import { Fragment, html, useLayoutEffect, useMemo, useRef, useState } from './html.js';
import { amount, blockedBy, label, printable, reasonClass, short } from './words.js';

// --- addresses -------------------------------------------------------------------------------------------------------

/** The address of a page: link(['queues', 'root.a'], { q: 'x' }). Values may contain any character. */
export function link(parts, query = {}) {
  const set = Object.entries(query).filter(([, value]) => value);
  const text = set.length ? `?${new URLSearchParams(set)}` : '';
  return `#/${parts.map(encodeURIComponent).join('/')}${text}`;
}

/** Opens a page. `replace`: without an entry in the history, for filters. */
export function open(address, { replace = false } = {}) {
  if (address === location.hash) return;
  if (!replace) { location.hash = address; return; }
  history.replaceState(null, '', address);
  dispatchEvent(new HashChangeEvent('hashchange'));
}

export const appLink = (app) => link(['applications', app.namespace || '-', app.applicationID]);
export const queueLink = (path) => link(['queues', path]);
export const nodeLink = (name) => link(['nodes', name]);

// --- small things ----------------------------------------------------------------------------------------------------

/** Text of a user: clipped by the style, complete in the title. */
export const Name = ({ text, href, class: more = '' }) => {
  const all = printable(text), title = all.length > 30 ? all.slice(0, 2000) : undefined;
  const shown = all.length > 2000 ? all : all.split(/(?<=[./:_])/).flatMap((part, at) => (at ? [html`<wbr />`, part] : [part])); // where it may break
  return href
    ? html`<a class=${`name ${more}`} href=${href} title=${title}>${shown}</a>`
    : html`<span class=${`name ${more}`} title=${title}>${shown}</span>`;
};

const STATES = { Running: 'good', Failing: 'bad', Failed: 'bad', Rejected: 'bad', Active: 'good', Schedulable: 'good' };
export const State = ({ text }) => html`<span class=${`chip ${STATES[text] || ''}`}>${text}</span>`;
export const Reason = ({ reason }) =>
  html`<span class=${`reason ${reasonClass(reason)}`}><i></i>${blockedBy(reason)}</span>`;

/** What a page shows instead of data that have not arrived, or never will. */
export function Missing({ of, what = 'data' }) {
  if (of.error) return html`<p class="empty" role="alert">${printable(of.error.message)}</p>`;
  return html`<p class="empty loading">Loading ${what} …</p>`;
}

export const Facts = ({ rows }) => html`<dl class="facts">
  ${Object.entries(rows).filter(([, value]) => value !== '' && value != null && value !== false)
    .map(([name, value]) => html`<${Fragment} key=${name}><dt>${name}</dt><dd>${value}</dd><//>`)}
</dl>`;

export const Card = ({ title, aside, class: more = '', children }) => html`<section class=${`card ${more}`}>
  <header><h2>${title}</h2>${aside && html`<div class="aside">${aside}</div>`}</header>${children}
</section>`;

// --- bars ------------------------------------------------------------------------------------------------------------

const percent = (part, total) => `${Math.min(100, Math.max(0, total > 0 ? (100 * part) / total : 0))}%`;

/**
 * One bar of a resource: `parts` are [class, amount] from the left, `total` is its full width, `mark` a line (guarantee).
 */
export const Bar = ({ parts, total, mark, text }) => html`<div class="bar" role="img" aria-label=${text} title=${text}>
  ${parts.map(([kind, value]) => value > 0 && html`<i key=${kind} class=${kind} style=${{ width: percent(value, total) }}></i>`)}
  ${mark > 0 && total > 0 && html`<b style=${{ left: percent(mark, total) }}></b>`}
</div>`;

/** Used and reserved of a total, with its numbers: for partitions, nodes and users. */
export function Usage({ resource, used = 0, reserved = 0, foreign = 0, total }) {
  const of = total === undefined ? amount(resource, used) : `${short(resource, used)} of ${short(resource, total)}`;
  const detail = [[used, 'used'], [reserved, 'reserved'], [foreign, 'other schedulers']]
    .filter(([value]) => value > 0).map(([value, word]) => `${amount(resource, value)} ${word}`).join(', ') || 'nothing used';
  return html`<div class="usage">
    <span class="what"><${Name} text=${label(resource)} /></span>
    <${Bar} parts=${[['used', used], ['reserved', reserved], ['foreign', foreign]]} total=${total || 0}
      text=${`${label(resource)}: ${detail}${total === undefined ? '' : `, of ${amount(resource, total)}`}`} />
    <span class="number">${of}${total > 0 && html` <em>${Math.floor((100 * used) / total)}%</em>`}</span>
  </div>`;
}

export const Legend = ({ of }) => html`<ul class="legend">
  ${of.map(([kind, words]) => html`<li key=${kind}><i class=${kind}></i>${words}</li>`)}
</ul>`;

// --- the table -------------------------------------------------------------------------------------------------------

const EXTRA = 12;

const compareBy = (value, sign) => (a, b) => {
  const x = value(a), y = value(b);
  if (x === y) return 0;
  return (x < y || x == null ? -1 : 1) * sign;
};

/**
 * Rows in the order of a column, then of their keys. While `hold`, rows keep their places: new ones come last, and those
 * that are `gone` stay. Another column or filter sorts again.
 */
function useOrder(rows, keyOf, column, down, hold, filter) {
  const kept = useRef(null);
  return useMemo(() => {
    const by = column?.sort ? compareBy(column.sort, down ? -1 : 1) : () => 0;
    const byKey = compareBy(keyOf, 1);
    let sorted = [...rows].sort((a, b) => by(a, b) || byKey(a, b));
    const order = `${column?.title} ${down} ${filter}`, gone = new Set();
    if (hold && kept.current?.order === order) {
      const now = new Map(sorted.map((row) => [keyOf(row), row]));
      const placed = kept.current.sorted.map((old) => {
        const key = keyOf(old), row = now.get(key);
        now.delete(key);
        if (!row) gone.add(key);
        return row || old;
      });
      sorted = [...placed, ...now.values()];
    }
    kept.current = { order, sorted };
    return { sorted, gone };
  }, [rows, column, down, hold, filter]);
}

/**
 * A table that renders only the rows in its window. `columns`: { title, cell(row), sort(row)?, class? }, `keyOf`: a
 * unique text of a row, `open(row)`: its address, `filter`: what selected the rows. Rows keep their places while the pointer is over them.
 */
export function Table({ columns, rows, keyOf, open: addressOf, label: name, filter = '', initial = 0, initialDown = false, rowHeight = matchMedia('(max-width: 760px)').matches ? 56 : 40 }) {
  const box = useRef(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const [sort, setSort] = useState({ at: initial, down: initialDown });
  const [hold, setHold] = useState(false);
  const [selected, select] = useState(null);
  const { sorted, gone } = useOrder(rows, keyOf, columns[sort.at], sort.down, hold, filter);

  useLayoutEffect(() => {
    const element = box.current; // the ref is empty when an update is applied after the table has been removed
    const measure = () => setView((old) => {
      const now = { top: element.scrollTop, height: element.clientHeight };
      return now.top === old.top && now.height === old.height ? old : now;
    });
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    element.addEventListener('scroll', measure, { passive: true });
    measure();
    return () => observer.disconnect();
  }, []);

  useLayoutEffect(() => { // j, k and Enter, wherever the focus is (main.js)
    const move = ({ detail }) => {
      const at = sorted.findIndex((row) => keyOf(row) === selected);
      if (detail === 'open') { if (at >= 0 && addressOf) open(addressOf(sorted[at])); return; }
      const to = Math.min(sorted.length - 1, Math.max(0, at + detail));
      if (!sorted.length) return;
      select(keyOf(sorted[to]));
      const top = to * rowHeight, { scrollTop, clientHeight } = box.current;
      if (top < scrollTop) box.current.scrollTop = top;
      else if (top + 2 * rowHeight > scrollTop + clientHeight) box.current.scrollTop = top + 2 * rowHeight - clientHeight;
    };
    addEventListener('muster-row', move);
    return () => removeEventListener('muster-row', move);
  }, [sorted, selected]);

  const first = Math.max(0, Math.min(Math.floor(view.top / rowHeight) - EXTRA, sorted.length - 1));
  const last = Math.min(sorted.length, Math.ceil((view.top + view.height) / rowHeight) + EXTRA);
  const sortBy = (at) => setSort((old) => ({ at, down: old.at === at ? !old.down : Boolean(columns[at].down) }));
  const spacer = (count) => count > 0 && html`<tr class="spacer" aria-hidden="true"><td colspan=${columns.length} style=${{ height: `${count * rowHeight}px` }}></td></tr>`;
  return html`<div class="window" ref=${box} tabindex="0" role="region" aria-label=${name}
      onPointerEnter=${() => setHold(true)} onPointerLeave=${() => setHold(false)}>
    <table aria-rowcount=${sorted.length + 1}>
      <thead><tr>${columns.map((column, at) => html`<th key=${column.title} scope="col" class=${column.class}
        aria-sort=${column.sort && sort.at === at ? (sort.down ? 'descending' : 'ascending') : undefined}>
        ${column.sort ? html`<button type="button" onClick=${() => sortBy(at)}>${column.title}</button>` : column.title}</th>`)}
      </tr></thead>
      <tbody>
        ${spacer(first)}
        ${sorted.slice(first, last).map((row, at) => html`<tr key=${keyOf(row)} aria-rowindex=${first + at + 2}
            class=${`${keyOf(row) === selected ? 'selected' : ''} ${gone.has(keyOf(row)) ? 'gone' : ''}`} style=${{ height: `${rowHeight}px` }}
            onClick=${(event) => addressOf && !event.target.closest('a') && !String(getSelection()) && open(addressOf(row))}>
          ${columns.map((column) => html`<td key=${column.title} class=${column.class}>${column.cell(row)}</td>`)}
        </tr>`)}
        ${spacer(sorted.length - last)}
      </tbody>
    </table>
    ${!sorted.length && html`<p class="empty">None.</p>`}
  </div>`;
}

/** A search field that the key / focuses. */
export const Search = ({ value, onInput, hint }) => html`<input type="search" class="search" value=${value} aria-label=${hint}
  placeholder=${hint} spellcheck=${false} autocomplete="off" onInput=${(event) => onInput(event.target.value)} />`;

export const Choice = ({ label: name, value, options, onChange }) => html`<label class="choice"><span>${name}</span>
  <select value=${value} onChange=${(event) => onChange(event.target.value)}>
    ${options.map(([key, words]) => html`<option key=${key} value=${key} selected=${key === value}>${printable(words).slice(0, 80)}</option>`)}
  </select></label>`;

/** Whether every word of the search is in one of the texts. */
export function matches(search, ...texts) {
  const all = texts.join('\n').toLowerCase();
  return search.toLowerCase().split(/\s+/).every((word) => all.includes(word));
}
