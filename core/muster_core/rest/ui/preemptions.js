// Preemptions: what is being preempted now, and what the events of the core tell about earlier ones.
import { html, useEffect, useMemo, useState } from './html.js';
import { fetchEvents, PREEMPTED, QUOTA_PREEMPTION, useData, useLive } from './data.js';
import { appLink, Card, Missing, Name, queueLink, Table } from './parts.js';
import { amounts, clock, printable, span } from './words.js';

const APPLICATION = 2, QUEUE = 4, MOST = 10000;

function* queuesOf(queue) {
  yield queue;
  for (const child of queue.children) yield* queuesOf(child);
}

/** Whether a record tells of a preemption: an allocation of an application, or a decision of a queue. */
const isAbout = (record) => (record.type === APPLICATION && record.eventChangeDetail === PREEMPTED)
  || (record.type === QUEUE && (record.eventChangeDetail === QUOTA_PREEMPTION || /preempt/.test(record.message || '')));

const keyOf = (record) => `${record.timestampNano} ${record.objectID} ${record.referenceID || ''} ${record.eventChangeDetail || ''}`;
const plain = (resource) => Object.fromEntries(Object.entries(resource?.resources || {}).map(([name, { value }]) => [name, value]));

/** The application for which pods are preempted; none if a queue is above its maximum. */
const preemptorOf = (record) => (record.type === QUEUE && record.eventChangeDetail === QUOTA_PREEMPTION ? record.referenceID : undefined);

function what(record) {
  if (!record.message) return `released ${record.referenceID || ''}`;
  return preemptorOf(record) ? `for ${preemptorOf(record)}: ${record.message}` : record.message;
}

const COLUMNS = [
  { title: 'Time', class: 'state', down: true, sort: (record) => record.timestampNano, cell: (record) => clock(record.timestampNano) },
  { title: 'Of', class: 'kind wide', sort: (record) => record.type, cell: (record) => (record.type === QUEUE ? 'queue' : 'application') },
  { title: 'Name', class: 'main', sort: (record) => record.objectID, cell: (record) => html`<${Name} text=${record.objectID} href=${record.type === QUEUE ? queueLink(record.objectID) : undefined} />` },
  { title: 'What', class: 'why', cell: (record) => html`<${Name} text=${what(record)} href=${preemptorOf(record) && appLink({ applicationID: preemptorOf(record) })} />` },
  { title: 'Resources', class: 'wide queue', cell: (record) => html`<${Name} text=${amounts(plain(record.resource))} />` },
];

export default function Preemptions({ partition }) {
  const tree = useData(`partition/${encodeURIComponent(partition)}/queues`, { slow: 2 });
  const recent = useLive((state) => state.events);
  const at = useLive((state) => state.at);
  const [earlier, setEarlier] = useState({});
  useEffect(() => { fetchEvents(MOST).then((data) => setEarlier({ data }), (error) => setEarlier({ error })); }, []);
  const rows = useMemo(() => [...new Map([...(earlier.data || []), ...recent].filter((record) => isAbout(record) && (!at || record.timestampNano <= at * 1e6)).map((record) => [keyOf(record), record])).values()], [earlier, recent, at]);
  const now = tree.data ? [...queuesOf(tree.data)].filter((queue) => queue.isLeaf
    && (Object.values(queue.preemptingResource).some(Boolean) || queue.isQuotaPreemptionRunning || queue.preemptionPausedUntil)) : [];
  return html`<div class="stack tall">
    <${Card} title="Now">${!tree.data ? html`<${Missing} of=${tree} />` : !now.length ? html`<p class="empty">No allocation is being preempted.</p>`
    : html`<table class="plain"><thead><tr><th scope="col">Queue</th><th scope="col">Preempting</th><th scope="col">State</th></tr></thead><tbody>
      ${now.map((queue) => html`<tr key=${queue.queuename}><td><${Name} text=${queue.queuename} href=${queueLink(queue.queuename)} /></td>
        <td>${printable(amounts(queue.preemptingResource))}</td>
        <td>${[queue.isQuotaPreemptionRunning && 'uses more than its maximum', queue.preemptionPausedUntil
      && `paused for ${span(queue.preemptionPausedUntil / 1e9 - Date.now() / 1000)}, because two queues preempt from each other`].filter(Boolean).join('; ') || '–'}</td></tr>`)}</tbody></table>`}
    <//>
    <${Card} title="Earlier" class="fill">
      <p class="note">From the last ${MOST.toLocaleString('en')} events of the core and those since this page was opened${at ? ', until the time that is shown' : ''}.</p>
      ${earlier.data ? html`<${Table} columns=${COLUMNS} rows=${rows} keyOf=${keyOf} label="Preemptions" initialDown=${true} />` : html`<${Missing} of=${earlier} what="events" />`}
    <//></div>`;
}
