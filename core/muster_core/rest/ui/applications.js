// Applications: all of a partition in one table, with search, filters and the reason why each waits.
import { html, useMemo } from './html.js';
import { useData } from './data.js';
import { appLink, Card, Choice, link, matches, Missing, Name, open, queueLink, Reason, Search, State, Table } from './parts.js';
import { age, appName, blockedBy, label, printable, short, shown } from './words.js';

const PAGE_SIZE = 1000;
const columnTitle = (name) => printable(label(name).split('/').pop()).slice(0, 40);
const keyOf = (app) => `${app.namespace || ''}/${app.applicationID}/${app.submissionTime}`;
const LISTS = [['active', 'live'], ['completed', 'completed'], ['rejected', 'rejected']];

function columnsOf(resources) {
  return [
    { title: 'Application', class: 'main', sort: appName, cell: (app) => html`<${Name} text=${appName(app)} href=${appLink(app)} />` },
    { title: 'Queue', class: 'wide queue', sort: (app) => app.queueName, cell: (app) => html`<${Name} text=${app.queueName} href=${queueLink(app.queueName)} />` },
    { title: 'State', class: 'state', sort: (app) => app.applicationState, cell: (app) => html`<${State} text=${app.applicationState} />` },
    { title: 'User', class: 'wide user', sort: (app) => app.user, cell: (app) => html`<${Name} text=${app.user} />` },
    { title: 'Pods', class: 'num wide', down: true, sort: (app) => app.pods, cell: (app) => html`${app.pods}${app.placeholders > 0 && html`<em title="placeholders and slots"> +${app.placeholders}</em>`}` },
    { title: 'Pending', class: 'num wide', down: true, sort: (app) => app.pending, cell: (app) => app.pending || '–' },
    ...resources.map((name) => ({ title: columnTitle(name), class: 'num wide', down: true, sort: (app) => app.usedResource[name] || 0,
      cell: (app) => (app.usedResource[name] ? short(name, app.usedResource[name]) : '–') })),
    { title: 'Age', class: 'num wide', sort: (app) => -app.submissionTime, cell: (app) => age(app.submissionTime) },
    { title: 'Blocked by', class: 'why', sort: (app) => (app.pending ? blockedBy(app.reason) : '~'), cell: (app) => (app.pending
      ? html`<span title=${printable(app.message).slice(0, 1000)}><${Reason} reason=${app.reason} /></span>` : html`<${Name} text=${app.message} />`) },
  ];
}

export default function Applications({ partition, query }) {
  const filters = Object.fromEntries(query);
  const list = LISTS.some(([key]) => key === filters.list) ? filters.list : 'active';
  const apps = useData(`partition/${encodeURIComponent(partition)}/applications/${list}/summary`, { pageSize: PAGE_SIZE });
  const set = (changes) => open(link(['applications'], { ...filters, ...changes }), { replace: true });
  const all = apps.data;
  const resources = useMemo(() => shown(...(all || []).map((app) => app.usedResource)).slice(0, 4), [all]);
  const resourceNames = resources.join();
  const columns = useMemo(() => columnsOf(resources), [resourceNames]);
  const unique = useMemo(() => [...new Map((all || []).map((app) => [keyOf(app), app])).values()], [all]);
  const rows = useMemo(() => unique.filter((app) => (!filters.q || matches(filters.q, appName(app), app.queueName, app.user))
    && (!filters.queue || app.queueName === filters.queue || app.queueName.startsWith(`${filters.queue}.`))
    && (!filters.user || app.user === filters.user)
    && (!filters.state || app.applicationState === filters.state)
    && (!filters.waiting || app.pending > 0)
    && (!filters.reason || (app.pending > 0 && (app.reason || 'none') === filters.reason))), [unique, query.toString()]);
  if (!all) return html`<${Missing} of=${apps} what="applications" />`;
  const some = (values) => [['', 'all'], ...[...new Set(values)].sort().map((value) => [value, value])];
  const reasons = some(unique.filter((app) => app.pending).map((app) => app.reason || 'none'));
  return html`<${Card} title="Applications" class="fill" aside=${html`
      <${Search} value=${filters.q || ''} onInput=${(q) => set({ q })} hint="Search name, queue, user" />
      <${Choice} label="List" value=${list} options=${LISTS} onChange=${(value) => set({ list: value === 'active' ? '' : value, state: '' })} />
      <${Choice} label="State" value=${filters.state || ''} options=${some(unique.map((app) => app.applicationState))} onChange=${(state) => set({ state })} />
      <${Choice} label="Blocked by" value=${filters.reason || ''} options=${reasons.map(([key, words]) => [key, key ? blockedBy(key) : words])} onChange=${(reason) => set({ reason })} />`}>
    <p class="note" role="status">${rows.length.toLocaleString('en')} of ${unique.length.toLocaleString('en')}${apps.isPartial ? ', more are loading' : ''}
      ${['queue', 'user', 'waiting'].filter((name) => filters[name]).map((name) => html`<button key=${name} type="button" class="filter"
        onClick=${() => set({ [name]: '' })} aria-label=${`Remove filter ${name}`}>${name === 'waiting' ? 'waiting' : `${name}: ${printable(filters[name]).slice(0, 60)}`} ✕</button>`)}</p>
    <${Table} key=${list} columns=${columns} rows=${rows} keyOf=${keyOf} open=${appLink} label="Applications" filter=${query.toString()} />
  <//>`;
}
