// What would happen: manifests that are not submitted yet, and an edited queue configuration. Nothing is changed.
import { html, useEffect, useRef, useState } from './html.js';
import { getText, useQuestion } from './data.js';
import { appLink, Card, link, Name, nodeLink, open, queueLink, Usage } from './parts.js';
import { appName, clock, count, printable } from './words.js';

const KINDS = { manifests: 'Manifests', queues: 'Queues' };
const HINTS = {
  manifests: 'kind: Job\nmetadata: {name: train}\nspec:\n  parallelism: 4\n  template:\n    metadata:\n      labels: {applicationId: train, queue: root.research}\n    spec:\n      containers: [{name: main, resources: {requests: {cpu: 4}}}]',
  queues: 'partitions:\n  - name: default\n    queues: …',
};
const ABOUT = {
  manifests: 'Pods and controllers that are not submitted yet. Would they start now, on which nodes, and which pods would be preempted? PriorityClasses that they name have to be among them.',
  queues: 'The complete queues.yaml, or the manifest of a ConfigMap. Which applications would start, wait or be preempted, and which usage exceeds a maximum?',
};

/** The texts of the page outlive it, until the tab is closed. */
const texts = { manifests: '', queues: '' };

// --- the question ----------------------------------------------------------------------------------------------------

const Field = ({ name, value, set, hint, type = 'text' }) => html`<label class="field"><span>${name}</span>
  <input type=${type} value=${value} placeholder=${hint} min="1" spellcheck=${false} autocomplete="off" onInput=${(event) => set(event.target.value)} /></label>`;

function Question({ kind, base, ask, isAsking }) {
  const [text, setText] = useState(texts[kind]);
  const [form, setForm] = useState({ namespace: 'default', user: '', groups: '', within: '60' });
  const [problem, setProblem] = useState('');
  const file = useRef(null);
  const change = (value) => { texts[kind] = value; setText(value); setProblem(''); };
  const set = (name) => (value) => setForm({ ...form, [name]: value });
  const submit = () => {
    if (isAsking || !text.trim()) return;
    const query = kind === 'queues' ? new URLSearchParams({ within: form.within })
      : new URLSearchParams([['namespace', form.namespace], ['user', form.user], ...form.groups.split(/[\s,]+/).filter(Boolean).map((group) => ['group', group])]);
    ask([`${base}/${kind === 'queues' ? 'plan' : 'dry-run'}?${query}`], text);
  };
  const fill = (found) => found.then(change, (error) => setProblem(error.message));
  const active = () => fill(getText('config').then((yaml) => yaml.split(/^checksum:/m)[0]));
  return html`<form class="question" onSubmit=${(event) => { event.preventDefault(); submit(); }}>
    <p class="note">${ABOUT[kind]}</p>
    <label class="field"><span>${kind === 'queues' ? 'Queue configuration' : 'Manifests'}, YAML or JSON</span>
      <textarea value=${text} placeholder=${HINTS[kind]} spellcheck=${false} rows="18" wrap="off" onInput=${(event) => change(event.target.value)}
        onKeyDown=${(event) => event.key === 'Enter' && (event.ctrlKey || event.metaKey) && submit()}></textarea></label>
    <div class="fields">
      ${kind === 'queues' ? html`<${Field} name="Within seconds" type="number" value=${form.within} set=${set('within')} />`
    : html`<${Field} name="Namespace" value=${form.namespace} set=${set('namespace')} hint="default" />
        <${Field} name="User" value=${form.user} set=${set('user')} hint="from the pods" />
        <${Field} name="Groups" value=${form.groups} set=${set('groups')} hint="none" />`}
    </div>
    <p class="buttons"><button type="submit" class="primary" disabled=${isAsking || !text.trim()} title="Ctrl+Enter">Ask</button>
      <button type="button" onClick=${() => file.current.click()}>Open a file</button>
      ${kind === 'queues' && html`<button type="button" onClick=${active}>Active configuration</button>`}</p>
    <input ref=${file} type="file" hidden onChange=${(event) => { if (event.target.files[0]) fill(event.target.files[0].text()); event.target.value = ''; }} />
    ${problem && html`<p role="alert">${printable(problem)}</p>`}
  </form>`;
}

// --- the answer ------------------------------------------------------------------------------------------------------

const COLOURS = { starts: 'good', waits: '', moves: '', rejected: 'bad', fails: 'bad', preempted: 'bad', exceeds: 'bad', unlimited: 'bad' };
const Chip = ({ of }) => html`<span class=${`chip ${COLOURS[of]}`}>${of}</span>`;

const MOST = 200;
const DRY_RUN = 'muster apply --dry-run=server -o json';
const more = (all, command) => all.length > MOST && html`<p class="note">and ${count(all.length - MOST, 'more line')}: ${command} prints all</p>`;

const Warnings = ({ of }) => of.map((text) => html`<p class="why-box reason-quota" key=${text}>Warning: ${printable(text)}</p>`);

const holder = (limit) => (limit.user ? `user ${limit.user} in queue ${limit.queue}` : limit.group ? `group ${limit.group} in queue ${limit.queue}` : `queue ${limit.queue}`);

function Submitted({ found }) {
  return html`${found.applications.map((app, at) => html`<section class="verdict-box" key=${appName(app)}>
      <p class="verdict"><${Chip} of=${app.result} /> ${printable(found.lines[at])}</p>
      ${app.limits.length > 0 && html`<h3>${app.result === 'starts' ? 'Limits, when it runs' : 'Limits that apply'}</h3>`}
      ${app.limits.map((limit) => html`<div key=${holder(limit)}><p class="note">${printable(holder(limit))}</p>
        ${Object.keys(limit.max).map((name) => html`<${Usage} key=${name} resource=${name} used=${limit.used[name] || 0} total=${limit.max[name]} />`)}</div>`)}
      ${app.result === 'starts' && html`<p class="note">Nodes: ${Object.entries(app.nodes).slice(0, MOST).map(([node, pods], place) => html`${place > 0 && ', '}<a
        key=${node} href=${nodeLink(node)}>${printable(node)}</a> (${count(pods, 'pod')})`)}</p>`}
    </section>`)}
    ${found.preempted.length > 0 && html`<h3>Preempted meanwhile, for these or for other applications</h3>
      <table class="plain"><thead><tr><th scope="col">Pod</th><th scope="col">Application</th><th scope="col">Node</th></tr></thead>
        <tbody>${found.preempted.slice(0, MOST).map((one) => html`<tr key=${one.pod}><td>${printable(one.pod)}</td><td>${printable(one.application)}</td><td>${printable(one.node)}</td></tr>`)}</tbody></table>
      ${more(found.preempted, DRY_RUN)}`}
    ${found.leftOut.length > 0 && html`<h3>Left out: ${count(found.podsLeftOut, 'pod')}</h3>
      <ul class="plain-list">${found.leftOut.slice(0, MOST).map((one) => html`<li key=${one.pod}>pod ${printable(one.pod)} ${printable(one.reason)}</li>`)}</ul>
      ${more(found.leftOut, DRY_RUN)}`}
    <${Warnings} of=${found.warnings} />`;
}

function Planned({ found }) {
  return html`<p class="verdict">${printable(found.lines[0])}</p>
    ${found.differences.length > 0 && html`<div class="scroll" tabindex="0" role="region" aria-label="Differences"><table class="plain differences">
      <thead><tr><th scope="col">Change</th><th scope="col">Subject</th><th scope="col" class="wide">Queue</th><th scope="col">Message</th></tr></thead>
      <tbody>${found.differences.slice(0, MOST).map((one, at) => html`<tr key=${at}><td><${Chip} of=${one.change} /></td>
        <td>${one.application ? html`<${Name} text=${appName({ ...one, applicationID: one.application })} href=${appLink({ ...one, applicationID: one.application })} />` : html`<${Name} text=${`queue ${one.queue}`} href=${queueLink(one.queue)} />`}</td>
        <td class="wide"><${Name} text=${one.queue} href=${queueLink(one.queue)} /></td><td>${printable(one.message)}</td></tr>`)}</tbody></table></div>
      ${more(found.differences, 'muster plan -o wide')}`}
    <${Warnings} of=${found.warnings} />`;
}

function Answer({ kind, state }) {
  if (state.isAsking) return html`<p class="empty loading">Simulating a copy of the cluster …</p>`;
  if (state.error) return html`<p class="verdict" role="alert">${printable(state.error.message)}</p>`;
  if (!state.data) return html`<p class="empty">The answer appears here. Nothing in the cluster is changed.</p>`;
  const Found = kind === 'queues' ? Planned : Submitted;
  return html`<div aria-live="polite"><${Found} found=${state.data[0]} /></div>`;
}

function Asked({ kind, base }) {
  const [state, ask] = useQuestion();
  const answer = useRef(null);
  useEffect(() => { if (state.at || state.isAsking) answer.current.scrollIntoView({ block: 'nearest' }); }, [state]);
  const aside = html`<div class="switch" role="group" aria-label="What changes">${Object.entries(KINDS).map(([name, words]) => html`
    <button key=${name} type="button" aria-pressed=${name === kind} onClick=${() => open(link(['what-if'], { of: name }))}>${words}</button>`)}</div>`;
  return html`<div class="columns2 stack">
    <${Card} title="Question" aside=${aside}><${Question} kind=${kind} base=${base} ask=${ask} isAsking=${state.isAsking} /><//>
    <div ref=${answer}><${Card} title="Answer" aside=${state.at && html`<em>the cluster at ${clock(state.at * 1e6)}</em>`}><${Answer} kind=${kind} state=${state} /><//></div>
  </div>`;
}

export default function WhatIfPage({ partition, query }) {
  const kind = query.get('of') === 'queues' ? 'queues' : 'manifests';
  return html`<div class="stack"><h1>What if</h1><${Asked} key=${kind} kind=${kind} base=${`partition/${encodeURIComponent(partition)}`} /></div>`;
}
