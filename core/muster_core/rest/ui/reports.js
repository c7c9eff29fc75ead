// Reports of `muster simulate`: a file of the user, shown with the colours of this UI. It never leaves the browser.
import { html, useEffect, useRef, useState } from './html.js';
import { Card } from './parts.js';
import { printable } from './words.js';

const MOST_BYTES = 32 << 20;
const TITLE = 'Muster simulation';

/** The report outlives the page, until the tab is closed. */
let opened = null;

// --- the file --------------------------------------------------------------------------------------------------------

// What is taken over of a report. Everything else is left out, so that a file from elsewhere runs and loads nothing.
const TAGS = new Set(['table', 'thead', 'tbody', 'tr', 'th', 'td', 'figure', 'figcaption', 'div', 'span', 'p', 'h2', 'svg', 'line', 'text', 'polyline']);
const ATTRIBUTES = ['viewBox', 'role', 'aria-label', 'x1', 'x2', 'y1', 'y2', 'x', 'y', 'text-anchor', 'points'];
const COLOUR = /^(?:stroke|background):var\(--([a-f])\)$/;
const CLASSES = ['grid', 'line', 'key'];
const DEEPEST = 12;

/** An element of the report as one of this page. */
function copied(node, depth = 0) {
  if (node.nodeType === Node.TEXT_NODE) return printable(node.data.replace(/[\r\n]+/g, ' '));
  const tag = node.localName;
  if (!TAGS.has(tag) || depth > DEEPEST) return null;
  const props = {};
  for (const name of ATTRIBUTES) if (node.hasAttribute(name)) props[name] = printable(node.getAttribute(name));
  const colour = COLOUR.exec(node.getAttribute('data-style') || '');
  props.class = [...CLASSES.filter((name) => node.classList.contains(name)), colour && `series-${colour[1]}`].filter(Boolean).join(' ') || undefined;
  if (tag === 'table') props.class = 'plain';
  const children = [...node.childNodes].map((child) => copied(child, depth + 1));
  return html`<${tag} ...${props}>${children}<//>`;
}

/** Title, and the parts under each heading. Throws if it is no report. */
function read(text) {
  // The parser runs no script and loads nothing, but the browser complains about styles that the policy forbids.
  const plain = text.replace(/<(\/?)style/gi, '<$1template').replace(/\sstyle=/gi, ' data-style=');
  const page = new DOMParser().parseFromString(plain, 'text/html');
  if (page.title !== TITLE) throw new Error('the file is no report; muster simulate --report FILE.html writes one');
  const sections = [{ title: 'Comparison', parts: [] }];
  for (const node of page.body.children) {
    if (node.localName === 'h2') sections.push({ title: printable(node.textContent), parts: [] });
    else if (node.localName !== 'h1') sections.at(-1).parts.push(copied(node));
  }
  return sections;
}

// --- the page --------------------------------------------------------------------------------------------------------

const Part = ({ part }) => (part?.type === 'table' ? html`<div class="scroll" tabindex="0" role="region" aria-label="Measures">${part}</div>` : part);

export default function ReportsPage() {
  const [report, setReport] = useState(opened);
  const [problem, setProblem] = useState('');
  const file = useRef(null);
  const show = async (chosen) => {
    if (!chosen) return;
    try {
      if (chosen.size > MOST_BYTES) throw new Error(`the file has more than ${MOST_BYTES >> 20} MiB`);
      opened = { name: printable(chosen.name), sections: read(await chosen.text()) };
      setReport(opened);
      setProblem('');
    } catch (error) { setProblem(error.message); }
  };
  useEffect(() => {
    const over = (event) => event.preventDefault();
    const drop = (event) => { event.preventDefault(); show(event.dataTransfer.files[0]); };
    addEventListener('dragover', over);
    addEventListener('drop', drop);
    return () => { removeEventListener('dragover', over); removeEventListener('drop', drop); };
  }, []);
  return html`<div class="stack report">
    <h1>${report ? report.name : 'Simulation reports'}</h1>
    <${Card} title="Report">
      <p class="note">Open a file that <code>muster simulate --report FILE.html</code> has written, or drop it here. It stays in this browser.</p>
      <p class="buttons"><button type="button" class="primary" onClick=${() => file.current.click()}>Open a report</button></p>
      <input ref=${file} type="file" accept=".html,text/html" aria-label="Report file" hidden onChange=${(event) => { show(event.target.files[0]); event.target.value = ''; }} />
      ${problem && html`<p role="alert">${printable(problem)}</p>`}
    <//>
    ${report?.sections.map(({ title, parts }, at) => html`<${Card} key=${at} title=${title}>${parts.map((part, place) => html`<${Part} key=${place} part=${part} />`)}<//>`)}
  </div>`;
}
