// Users and groups: what they use, and how close they are to their limits.
import { html, useMemo } from './html.js';
import { useData } from './data.js';
import { Bar, Card, Choice, link, matches, Missing, Name, open, Search, Table } from './parts.js';
import { amount, amounts, label, printable, short, shown } from './words.js';

function* limitsOf(tree) {
  if (tree.maxApplications) {
    yield { queue: tree.queuePath, resource: 'applications', used: tree.runningApplications.length, most: tree.maxApplications };
  }
  for (const [resource, most] of Object.entries(tree.maxResources || {})) {
    yield { queue: tree.queuePath, resource, used: tree.resourceUsage[resource] || 0, most };
  }
  for (const child of tree.children) yield* limitsOf(child);
}

const fullness = (limit) => (limit.most ? limit.used / limit.most : 1);
const quantity = (limit, value) => (limit.resource === 'applications' ? value : amount(limit.resource, value));

/** One row for each user or group, with its limits, the fullest first. */
const rowOf = (item, name) => ({
  name, usage: item.queues.resourceUsage, running: item.queues.runningApplications.length,
  limits: [...limitsOf(item.queues)].sort((a, b) => fullness(b) - fullness(a) || (a.queue < b.queue ? -1 : 1)),
});

function Limit({ limit, more }) {
  if (!limit) return html`<em>no limit</em>`;
  const text = `${label(limit.resource)} in ${limit.queue}: ${quantity(limit, limit.used)} of ${quantity(limit, limit.most)}`;
  return html`<span class="limit"><${Bar} total=${limit.most || 1} parts=${[[fullness(limit) >= 1 ? 'bad' : 'used', limit.most ? limit.used : 1]]} text=${printable(text)} />
    <${Name} text=${`${text}${more > 1 ? `, and ${more - 1} more` : ''}`} /></span>`;
}

const columnsOf = (resources, kind) => [
  { title: kind === 'groups' ? 'Group' : 'User', class: 'main', sort: (row) => row.name,
    cell: (row) => (kind === 'groups' ? html`<${Name} text=${row.name} />` : html`<${Name} text=${row.name} href=${link(['applications'], { user: row.name })} />`) },
  { title: 'Running', class: 'num', down: true, sort: (row) => row.running, cell: (row) => row.running },
  ...resources.slice(0, 5).map((name) => ({ title: printable(label(name).split('/').pop()).slice(0, 40), class: 'num wide', down: true,
    sort: (row) => row.usage[name] || 0, cell: (row) => html`<span title=${printable(amounts(row.usage))}>${row.usage[name] ? short(name, row.usage[name]) : '–'}</span>` })),
  { title: 'Fullest limit', class: 'why', down: true, sort: (row) => (row.limits[0] ? fullness(row.limits[0]) : -1),
    cell: (row) => html`<${Limit} limit=${row.limits[0]} more=${row.limits.length} />` },
];

export default function Users({ partition, query }) {
  const filters = Object.fromEntries(query);
  const kind = filters.list === 'groups' ? 'groups' : 'users';
  const found = useData(`partition/${encodeURIComponent(partition)}/usage/${kind}`, { pageSize: 500, slow: 2 });
  const set = (changes) => open(link(['users'], { ...filters, ...changes }), { replace: true });
  const all = useMemo(() => (found.data || []).map((item) => rowOf(item, item.userName ?? item.groupName)), [found.data]);
  const rows = useMemo(() => all.filter((row) => !filters.q || matches(filters.q, row.name)), [all, filters.q]);
  const resources = useMemo(() => shown(...all.map((row) => row.usage)), [all]);
  const columns = useMemo(() => columnsOf(resources, kind), [resources.join(), kind]);
  return html`<${Card} title=${kind === 'groups' ? 'Groups' : 'Users'} class="fill" aside=${html`
      <${Search} value=${filters.q || ''} onInput=${(q) => set({ q })} hint="Search" />
      <${Choice} label="List" value=${kind} options=${[['users', 'users'], ['groups', 'groups with limits']]} onChange=${(list) => set({ list: list === 'users' ? '' : list })} />`}>
    <p class="note">Users with applications. A limit is that of the user, or else of all users (<code>*</code>), in a queue that the user uses.</p>
    ${found.data ? html`<${Table} key=${kind} columns=${columns} rows=${rows} keyOf=${(row) => row.name} label="Users" filter=${query.toString()} />` : html`<${Missing} of=${found} what="users" />`}
  <//>`;
}
