// One application: why it is pending, the phases of the application and of each pod, task groups, pods and events.
import { html, useMemo } from './html.js';
import { eventWords, segment, useData, useLive, useQuestion } from './data.js';
import { appLink, Card, Facts, Legend, Missing, Name, nodeLink, queueLink, Reason, State, Table } from './parts.js';
import { explain, kindOf, podName, stateOf } from './explain.js';
import { age, amounts, appName, clock, count, printable, reasonClass, span } from './words.js';

// --- the time axis ---------------------------------------------------------------------------------------------------

const MOST_MARKS = 60;

/**
 * A time axis on which long gaps without a change are short: the width of a gap grows with the logarithm of its time.
 * Returns a function from nanoseconds to percent, and the gaps { at, seconds } that are worth a label.
 */
function axisOf(times, now) {
  const known = [...new Set(times.filter(Boolean).map((at) => Math.floor(at / 1e9)))].sort((a, b) => a - b);
  const step = Math.ceil(known.length / MOST_MARKS) || 1;
  const marks = known.filter((_, at) => at % step === 0);
  marks.push(Math.max(Math.floor(now / 1e9), (marks.at(-1) ?? 0) + 1));
  const widths = marks.slice(1).map((mark, at) => 0.6 + Math.log2(1 + mark - marks[at]));
  const total = widths.reduce((sum, width) => sum + width, 0);
  const starts = [0];
  widths.forEach((width) => starts.push(starts.at(-1) + (100 * width) / total));
  const place = (ns) => {
    const seconds = ns / 1e9;
    let at = marks.findLastIndex((mark) => mark <= seconds);
    if (at < 0) return 0;
    if (at >= widths.length) return 100;
    return starts[at] + ((seconds - marks[at]) / (marks[at + 1] - marks[at])) * (starts[at + 1] - starts[at]);
  };
  const gaps = widths.map((_, at) => ({ from: starts[at], width: starts[at + 1] - starts[at], seconds: marks[at + 1] - marks[at] }));
  return { place, gaps };
}

/** Segments [class, from, to, text] on the axis. */
const Track = ({ axis, segments }) => html`<div class="track-line" role="img" aria-label=${segments.map(([, , , text]) => text).join(', ')}>
  ${segments.map(([kind, from, to, text], at) => html`<i key=${at} class=${kind} title=${text}
    style=${{ left: `${axis.place(from)}%`, width: `${Math.max(0.4, axis.place(to) - axis.place(from))}%` }}></i>`)}</div>`;

function Axis({ axis }) {
  return html`<div class="axis" aria-hidden="true">${axis.gaps.filter((gap) => gap.width > 7).map((gap) => html`<span key=${gap.from}
    style=${{ left: `${gap.from}%`, width: `${gap.width}%` }}>${span(gap.seconds)}</span>`)}</div>`;
}

/** The states of the application, one after the other. */
function statesOf(app, end) {
  return app.stateLog.map((entry, at) => {
    const until = app.stateLog[at + 1]?.time ?? end;
    return [`state-${entry.applicationState}`, entry.time, until, `${entry.applicationState} for ${span((until - entry.time) / 1e9)}`];
  });
}

/** What a pod waited for, and since when it is bound. Earlier reasons end when they last applied. */
function phasesOf(item, end) {
  if (item.nodeId) {
    const wait = [['reason-none', item.requestTime, item.allocationTime, `waited ${span((item.allocationTime - item.requestTime) / 1e9)}`]];
    const kind = item.placeholder ? 'reserved' : 'used';
    return [...(item.requestTime && item.requestTime < item.allocationTime ? wait : []),
      [kind, item.allocationTime, end, `${item.placeholder ? 'reserved' : 'bound'} for ${span((end - item.allocationTime) / 1e9)}`]];
  }
  const log = (item.allocationLog || []).filter((entry) => entry.reason);
  if (!log.length) return [['reason-none', item.requestTime, end, 'pending, not evaluated yet']];
  return log.map((entry, at) => {
    const from = at ? log[at - 1].lastOccurrence : item.requestTime, to = at === log.length - 1 ? end : entry.lastOccurrence;
    return [reasonClass(entry.reason), from, to, `${entry.reason} for ${span((to - from) / 1e9)}: ${printable(entry.message)}`];
  });
}

// --- the panels ------------------------------------------------------------------------------------------------------

const blockedPods = (reason) => {
  if (reason.kind === 'gang') return 'gang';
  const names = reason.kind === 'pod' ? ` (${reason.pods.join(', ')}${reason.count > reason.pods.length ? ` and ${reason.count - reason.pods.length} more` : ''})`
    : reason.groups.size ? ` of ${[...reason.groups].sort().join(', ')}` : '';
  return printable(count(reason.count, reason.kind) + names);
};

/** The smallest changes that would start it, and when it starts otherwise: computed on request, because it takes seconds. */
function Foresight({ path, query }) {
  const [{ data, error, at, isAsking }, ask] = useQuestion();
  const isPast = useLive((state) => state.at > 0);
  const lines = (found) => found.lines.map((line, number) => html`<p key=${number} class=${line.startsWith(' ') ? 'change' : ''}>${printable(line.trim())}</p>`);
  if (isPast) return null; // the answer would be about the present
  return html`<div class="foresight">
    <button type="button" disabled=${isAsking} onClick=${() => ask(['changes', 'estimate'].map((part) => `${path}/${part}?${query}`))}>What would start it, and when?</button>
    ${isAsking && html`<p class="empty loading">Simulating a copy of the cluster …</p>`}
    ${error && html`<p role="alert">${printable(error.message)}</p>`}
    ${data && html`<div class="why-box reason-none" aria-live="polite">${data.map(lines)}<p class="note">the cluster at ${clock(at * 1e6)}</p></div>`}
  </div>`;
}

function Explain({ app, queue, waiting, path, query }) {
  const { status, reasons, preemption } = useMemo(() => explain(app), [app]);
  const at = (waiting || []).findIndex((item) => item.applicationID === app.applicationID && item.namespace === app.namespace);
  const ahead = reasons.length && at > 0 ? waiting.slice(0, at) : [];
  return html`<p class="verdict">${printable(status)}</p>
    ${reasons.map((reason) => html`<div key=${reason.kind + reason.message} class=${`why-box ${reasonClass(reason.code)}`}>
      <p><${Reason} reason=${reason.code} /> <em>${blockedPods(reason)}</em></p><p>${printable(reason.message)}</p>
      ${Object.keys(reason.nodes).length > 1 && html`<table class="plain"><thead><tr><th scope="col" class="num">Nodes</th><th scope="col">Reason</th></tr></thead>
        <tbody>${Object.entries(reason.nodes).sort(([, a], [, b]) => b - a).slice(0, 20).map(([text, number]) => html`<tr key=${text}>
          <td class="num">${number < 0 ? 'all' : number}</td><td>${printable(text)}</td></tr>`)}</tbody></table>`}
      ${reason.suggestion && html`<p><b>Suggestion:</b> ${reason.suggestion}.</p>`}</div>`)}
    ${preemption.length > 0 && html`<p class="note">Preemption: ${printable(preemption.join('; '))}</p>`}
    ${ahead.length > 0 && html`<h3>Ahead in queue ${printable(app.queueName)}: ${count(ahead.length, 'application')}</h3>
      <ol class="line">${ahead.slice(0, 5).map((item) => html`<li key=${appName(item)}><${Name} text=${appName(item)} href=${appLink(item)} />
        <span>${printable(amounts(item.pendingResource))}</span>${item.blocksOthers && html`<b>blocks the queue</b>`}</li>`)}</ol>
      ${ahead.length > 5 && html`<p class="note">and ${ahead.length - 5} more</p>`}`}
    ${reasons.length > 0 && html`<${Foresight} path=${path} query=${query} />`}
    ${reasons.length > 0 && queue && html`<p class="note">Available in the queue: ${printable(amounts(queue.headroom))}</p>`}`;
}

const MEMBERS = ['Placeholders', 'Running', 'Replaced', 'Timed out', 'Bound', 'Pending'];

function TaskGroups({ app }) {
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Task groups"><table class="plain stacked"><thead><tr><th scope="col">Task group</th><th scope="col" class="each">Each</th>
    ${MEMBERS.map((title) => html`<th scope="col" class="num">${title}</th>`)}</tr></thead>
    <tbody>${[...app.placeholderData].sort((a, b) => (a.taskGroupName < b.taskGroupName ? -1 : 1)).map((group) => {
    const bound = app.allocations.filter((item) => item.taskGroupName === group.taskGroupName);
    const held = bound.filter((item) => item.placeholder).length;
    const pending = app.requests.filter((item) => item.taskGroupName === group.taskGroupName && !item.placeholder).length;
    return html`<tr key=${group.taskGroupName}><td><${Name} text=${group.taskGroupName} /></td><td>${printable(amounts(group.minResource))}</td>
      ${[group.count, held, group.replaced, group.timedout, bound.length - held, pending].map((number, at) => html`<td class="num" data-title=${MEMBERS[at]}>${number}</td>`)}</tr>`;
  })}</tbody></table></div>`;
}

const podColumns = (axis, end) => [
  { title: 'Pod', class: 'main', sort: (item) => `${item.placeholder} ${podName(item)}`, cell: (item) => html`<${Name} text=${kindOf(item) === 'slot' ? `${item.pendingCount || 1} slot` : podName(item)} />` },
  { title: 'Group', class: 'wide user', sort: (item) => item.taskGroupName, cell: (item) => html`<${Name} text=${item.taskGroupName || '–'} />` },
  { title: 'Kind', class: 'wide kind', sort: kindOf, cell: kindOf },
  { title: 'State', class: 'state', sort: stateOf, cell: (item) => html`<span class=${`chip ${item.nodeId ? (item.releasing ? 'bad' : 'good') : ''}`} title=${item.releasing}>${stateOf(item)}</span>` },
  { title: 'Node', class: 'wide user', sort: (item) => item.nodeId || '', cell: (item) => (item.nodeId ? html`<${Name} text=${item.nodeId} href=${nodeLink(item.nodeId)} />${item.devices && html` <em title=${printable(item.devices.join(', '))}>${count(item.devices.length, 'device')}</em>`}` : '–') },
  { title: 'Requests', class: 'wide queue', cell: (item) => html`<${Name} text=${amounts(item.resource)} />` },
  { title: 'Priority', class: 'num wide', down: true, sort: (item) => Number(item.priority), cell: (item) => item.priority },
  { title: 'Age', class: 'num wide', sort: (item) => -item.requestTime, cell: (item) => age(item.requestTime) },
  { title: 'Phases', class: 'phases', cell: (item) => html`<${Track} axis=${axis} segments=${phasesOf(item, end)} />` },
];

function podCounts(app) {
  const held = app.allocations.filter((item) => item.placeholder).length;
  const pending = app.requests.filter((item) => !item.placeholder).length;
  return [`${app.allocations.length - held} bound`, held && count(held, 'placeholder'), pending && `${pending} pending`].filter(Boolean).join(', ');
}

/** Events of the application and its pods, the newest first. */
function Events({ of }) {
  if (!of.data) return html`<${Missing} of=${of} what="events" />`;
  if (!of.data.length) return html`<p class="empty">None that the core still stores.</p>`;
  const rows = of.data.slice().reverse();
  return html`<ul class="events">${rows.map((record, at) => html`<li key=${rows.length - at}><time>${clock(record.timestampNano)}</time>
    <span class="what">${eventWords(record).about} ${eventWords(record).what}</span>
    <${Name} text=${record.message ? `${record.message} (${record.objectID})` : record.type === 1 ? record.objectID : record.referenceID || record.objectID} /></li>`)}</ul>`;
}

export default function ApplicationPage({ partition, parts: [namespace, id] }) {
  const base = `partition/${encodeURIComponent(partition)}`;
  const space = namespace === '-' ? '' : `namespace=${encodeURIComponent(namespace)}`;
  const path = `${base}/application/${segment(id)}`;
  const found = useData(`${path}?${space}`);
  const events = useData(`${path}/events?count=200&${space}`, { slow: 2 });
  const app = found.data;
  const queue = useData(app && !app.finishedTime ? `${base}/queue/${segment(app.queueName)}` : null, { slow: 2 });
  const waiting = useData(app?.requests.length ? `${base}/queue/${segment(app.queueName)}/waiting?limit=1000` : null, { slow: 2 });
  if (!app) return html`<${Missing} of=${found} what="the application" />`;
  const end = app.finishedTime || (found.at || Date.now()) * 1e6;
  const pods = [...app.allocations, ...app.requests];
  const axis = axisOf([app.submissionTime, ...app.stateLog.map((entry) => entry.time), ...pods.flatMap((item) => [item.requestTime, item.allocationTime])], end);
  return html`<div class="stack">
    <h1><${Name} text=${appName(app)} /> <${State} text=${app.applicationState} /></h1>
    <div class="columns2">
      <div class="col"><${Card} title="Why" class="first"><${Explain} app=${app} queue=${queue.data} waiting=${waiting.data} path=${path} query=${space} /><//></div>
      <div class="col"><${Card} title="Application"><${Facts} rows=${{
        queue: html`<${Name} text=${app.queueName} href=${queueLink(app.queueName)} />`,
        user: printable(app.user + (app.groups.length ? ` (${app.groups.join(', ')})` : '')),
        age: age(app.submissionTime),
        gang: app.gangSchedulingStyle ? `${app.gangSchedulingStyle}, placement ${app.gangPlacement}` : app.gangProblem ? `none: ${printable(app.gangProblem)}` : '',
        'gang size': Object.keys(app.placeholderAsk).length > 0 && printable(amounts(app.placeholderAsk)),
        allocated: printable(amounts(app.usedResource)),
        'maximum so far': printable(amounts(app.maxUsedResource)),
        pending: app.requests.length > 0 && printable(amounts(app.pendingResource)),
        'reserved quota': Object.values(app.reservedQuota).some(Boolean) && printable(amounts(app.reservedQuota)),
        'reserved nodes': printable([...new Set(app.reservations.map((entry) => entry.split('|')[0]))].join(', ')),
      }} /><//></div>
    </div>
    <${Card} title="Phases" aside=${html`<${Legend} of=${[['state-Accepted', 'accepted'], ['state-Running', 'running'], ['reserved', 'reserved'], ['reason-none', 'waited']]} />`}>
      <${Track} axis=${axis} segments=${statesOf(app, end)} /><${Axis} axis=${axis} />
      <p class="note">Long times without a change are drawn shorter. Pods that wait have the colours of their reasons.</p>
    <//>
    ${app.placeholderData.length > 0 && html`<${Card} title="Task groups"><${TaskGroups} app=${app} /><//>`}
    <${Card} title="Pods" class="pods" aside=${podCounts(app)}>
      <${Table} columns=${podColumns(axis, end)} rows=${pods} keyOf=${(item) => `${item.nodeId ? 'a' : 'r'}${item.allocationKey}${item.allocationID || ''}`} label="Pods" />
    <//>
    <${Card} title="Events"><${Events} of=${events} /><//>
  </div>`;
}
