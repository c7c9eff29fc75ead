// Nodes: one square for each node by topology, how often a gang of some size would still fit, a table, and one node.
import { html, useLayoutEffect, useMemo, useState } from './html.js';
import { segment, useData } from './data.js';
import { appLink, Card, Choice, Facts, Legend, link, matches, Missing, Name, nodeLink, open, Search, State, Table, Usage } from './parts.js';
import { age, amounts, count, label, printable, short, shown } from './words.js';

const keyOf = (node) => node.nodeID;
const share = (node, name) => (node.capacity[name] ? ((node.allocated[name] || 0) + (node.occupied[name] || 0)) / node.capacity[name] : 0);
const fullest = (node) => Math.max(0, ...Object.keys(node.capacity).filter((name) => name !== 'pods').map((name) => share(node, name)));
const stateWords = (node) => (node.state === 'SCHEDULABLE' ? 'Schedulable' : node.state.charAt(0) + node.state.slice(1).toLowerCase());

/** Labels that divide the nodes into groups: more than one node each, and at most 200 groups. Those of topology first. */
function groupingsOf(nodes) {
  const values = new Map();
  for (const node of nodes) {
    for (const [key, value] of Object.entries(node.attributes)) {
      if (!values.has(key)) values.set(key, new Set());
      if (values.get(key).size <= 200) values.get(key).add(value);
    }
  }
  const rank = (key) => (/rack|block|switch/.test(key) ? 0 : /zone/.test(key) ? 1 : /topology/.test(key) ? 2 : /instance-type|pool|group/.test(key) ? 3 : 4);
  return [...values].filter(([key, found]) => found.size <= 200 && (found.size < nodes.length || nodes.length === 1) && !key.startsWith('si'))
    .map(([key]) => key).sort((a, b) => rank(a) - rank(b) || (values.get(b).size > 1) - (values.get(a).size > 1) || (a < b ? -1 : 1));
}

function groupsOf(nodes, key) {
  const groups = new Map();
  for (const node of nodes) {
    const name = key ? node.attributes[key] || `without ${key}` : 'all nodes';
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(node);
  }
  return [...groups].sort(([a], [b]) => a.localeCompare(b, 'en', { numeric: true }));
}

/** How many pods of a size fit on the free resources of a node. */
const fitting = (node, size) => (node.state !== 'SCHEDULABLE' ? 0
  : Math.max(0, Math.min(node.available.pods ?? Infinity, ...size.map(([name, each]) => Math.floor((node.available[name] || 0) / each)))));

const square = (node, resource) => {
  const used = resource ? share(node, resource) : fullest(node);
  const tenth = Math.min(10, Math.ceil(used * 10));
  return `square full-${tenth}${node.state === 'SCHEDULABLE' ? '' : ' cordoned'}${node.reservations ? ' held' : ''}`;
};

/** The sizes of a gang as numbers: what the fields contain, in the units of REST. */
const UNITS = { vcore: 1000, memory: 2 ** 30 };

function Fit({ groups, groupName, resources }) {
  const [members, setMembers] = useState('8');
  const [sizes, setSizes] = useState({ vcore: '4', memory: '8' });
  const size = resources.map((name) => [name, Number(sizes[name] || 0) * (UNITS[name] || 1)]).filter(([, each]) => each > 0);
  const wanted = Math.max(1, Math.floor(Number(members)) || 1);
  const found = size.length ? groups.map(([name, nodes]) => [name, nodes.reduce((sum, node) => sum + fitting(node, size), 0)]) : [];
  const total = found.reduce((sum, [, number]) => sum + number, 0);
  const whole = found.filter(([, number]) => number >= wanted);
  return html`<${Card} title="Which gang still fits"><div class="fit">
      <label>Members <input type="number" min="1" max="100000" value=${members} onInput=${(event) => setMembers(event.target.value)} /></label>
      ${resources.slice(0, 5).map((name) => html`<label key=${name}>${printable(label(name)).slice(0, 40)}${name === 'memory' ? ' (Gi)' : ''}
        <input type="number" min="0" step="any" value=${sizes[name] || ''} placeholder="0" onInput=${(event) => setSizes({ ...sizes, [name]: event.target.value })} /></label>`)}
    </div>
    ${size.length ? html`<p class="verdict">${total >= wanted ? `Fits ${count(Math.floor(total / wanted), 'time')}` : `Does not fit: room for ${total} of ${wanted} members`}${groups.length > 1
    ? `; inside one ${groupName.split('/').pop()}: ${whole.length ? `${count(whole.reduce((sum, [, number]) => sum + Math.floor(number / wanted), 0), 'time')}, in ${whole.slice(0, 6).map(([name]) => name).join(', ')}${whole.length > 6 ? ` and ${whole.length - 6} more` : ''}` : 'no'}` : ''}.</p>`
    : html`<p class="empty">Enter what each member requests.</p>`}
    <p class="note">Counts free resources of schedulable nodes. Quotas, reservations and constraints of the pods are not considered.</p>
  <//>`;
}

function Drawer({ partition, name }) {
  const found = useData(`partition/${encodeURIComponent(partition)}/node/${segment(name)}`);
  const close = () => open(link(['nodes']));
  useLayoutEffect(() => {
    addEventListener('muster-close', close);
    return () => removeEventListener('muster-close', close);
  }, []);
  const node = found.data;
  return html`<aside class="drawer" aria-label="Node"><button type="button" class="icon close" aria-label="Close" onClick=${close}>✕</button>
    <h2><${Name} text=${name} /></h2>
    ${!node ? html`<${Missing} of=${found} what="the node" />` : html`<p><${State} text=${stateWords(node)} /> ${count(node.allocations.length, 'allocation')},
        ${' '}${count(node.foreignAllocations.length, 'pod')} of other schedulers</p>
      ${shown(node.capacity).map((resource) => html`<${Usage} key=${resource} resource=${resource} used=${node.allocated[resource]}
        foreign=${node.occupied[resource]} total=${node.capacity[resource]} />`)}
      ${node.reservations.length > 0 && html`<h3>Reserved for</h3><p>${printable([...new Set(node.reservations.map((entry) => entry.split('|')[0]))].join(', '))}</p>`}
      <h3>Allocations</h3>
      ${node.allocations.length ? html`<table class="plain"><thead><tr><th scope="col">Application</th><th scope="col">Requests</th><th scope="col" class="num">Priority</th><th scope="col" class="num">Age</th></tr></thead><tbody>
        ${node.allocations.slice(0, 200).map((item) => {
    const app = { namespace: item.allocationTags['kubernetes.io/meta/namespace'], applicationID: item.applicationId };
    return html`<tr key=${item.allocationID}><td><${Name} text=${item.allocationTags['kubernetes.io/meta/podName'] || item.allocationKey} href=${appLink(app)} />${item.placeholder && html` <em>placeholder</em>`}</td>
          <td>${printable(amounts(item.resource))}</td><td class="num">${item.priority}</td><td class="num">${age(item.allocationTime)}</td></tr>`;
  })}</tbody></table>` : html`<p class="empty">None.</p>`}
      <h3>Pods of other schedulers</h3>
      ${node.foreignAllocations.length ? html`<table class="plain"><tbody>${node.foreignAllocations.slice(0, 200).map((item) => html`<tr key=${item.allocationKey}>
        <td><${Name} text=${item.allocationTags['kubernetes.io/meta/podName'] || item.allocationKey} /></td><td>${printable(amounts(item.resource))}</td></tr>`)}</tbody></table>` : html`<p class="empty">None.</p>`}
      <h3>Labels and attributes</h3>
      <${Facts} rows=${Object.fromEntries(Object.entries(node.attributes).filter(([, value]) => value).map(([key, value]) => [printable(key), printable(value)]))} />`}
  </aside>`;
}

const columnsOf = (resources) => [
  { title: 'Node', class: 'main', sort: keyOf, cell: (node) => html`<${Name} text=${node.nodeID} href=${nodeLink(node.nodeID)} />` },
  { title: 'State', class: 'state', sort: (node) => node.state, cell: (node) => html`<${State} text=${stateWords(node)} />` },
  ...resources.slice(0, 4).map((name, at) => ({ title: printable(label(name)).slice(0, 40), class: at ? 'wide' : '', down: true, sort: (node) => share(node, name),
    cell: (node) => (node.capacity[name] ? html`${short(name, (node.allocated[name] || 0) + (node.occupied[name] || 0))} of ${short(name, node.capacity[name])} <em>${Math.floor(100 * share(node, name))}%</em>` : '–') })),
  { title: 'Pods', class: 'num wide', down: true, sort: (node) => node.allocations, cell: (node) => node.allocations },
  { title: 'Others', class: 'num wide', down: true, sort: (node) => node.foreignAllocations, cell: (node) => node.foreignAllocations },
];

export default function Nodes({ partition, parts, query }) {
  const filters = Object.fromEntries(query);
  const found = useData(`partition/${encodeURIComponent(partition)}/nodes/summary`, { pageSize: 1000, slow: 2 });
  const all = found.data;
  const set = (changes) => open(link(['nodes', ...parts], { ...filters, ...changes }), { replace: true });
  const resources = useMemo(() => shown(...(all || []).map((node) => node.capacity)), [all]);
  const groupings = useMemo(() => groupingsOf(all || []), [all]);
  const grouping = groupings.includes(filters.by) ? filters.by : groupings[0] || '';
  const nodes = useMemo(() => (all || []).filter((node) => !filters.q || matches(filters.q, node.nodeID, ...Object.values(node.attributes))), [all, filters.q]);
  const groups = useMemo(() => groupsOf(nodes, grouping), [nodes, grouping]);
  const resourceNames = resources.join();
  const columns = useMemo(() => columnsOf(resources), [resourceNames]);
  if (!all) return html`<${Missing} of=${found} what="nodes" />`;
  const resource = resources.includes(filters.resource) ? filters.resource : '';
  return html`<div class=${`with-drawer ${parts[0] ? 'has-drawer' : ''}`}><div class="stack left">
    <${Card} title=${count(nodes.length, 'node')} aside=${html`<${Search} value=${filters.q || ''} onInput=${(q) => set({ q })} hint="Search names and labels" />
      <${Choice} label="Group by" value=${grouping} options=${groupings.map((key) => [key, key])} onChange=${(by) => set({ by })} />
      <${Choice} label="Colour" value=${resource} options=${[['', 'fullest resource'], ...resources.map((name) => [name, label(name)])]} onChange=${(value) => set({ resource: value })} />`}>
      <${Legend} of=${[['full-0', 'empty'], ['full-5', 'half'], ['full-10', 'full'], ['cordoned', 'not schedulable'], ['held', 'has reservations']]} />
      <div class="squares">${groups.map(([name, members]) => html`<section key=${name}><h3><${Name} text=${name} /> <em>${members.length}</em></h3>
        <div class="map">${members.map((node) => html`<a key=${node.nodeID} tabindex="-1" href=${nodeLink(node.nodeID)} class=${square(node, resource)}
          title=${`${printable(node.nodeID)}: ${resources.map((item) => `${label(item)} ${Math.floor(100 * share(node, item))}%`).join(', ')}`}
          aria-label=${printable(node.nodeID)}></a>`)}</div></section>`)}</div>
    <//>
    <${Fit} groups=${groups} groupName=${grouping} resources=${resources} />
    <${Card} title="All nodes" class="pods"><${Table} columns=${columns} rows=${nodes} keyOf=${keyOf} open=${(node) => nodeLink(node.nodeID)} label="Nodes" filter=${query.toString()} /><//>
  </div>${parts[0] && html`<${Drawer} key=${parts[0]} partition=${partition} name=${parts[0]} />`}</div>`;
}
