// Queues: the tree with guarantee, used, reserved, maximum and waiting amounts, and a drawer with the details of one queue.
import { html, useLayoutEffect, useMemo, useState } from './html.js';
import { segment, useData } from './data.js';
import { appLink, Bar, Card, Choice, Facts, Legend, link, matches, Missing, Name, open, queueLink, Search, State } from './parts.js';
import { age, amount, amounts, appName, count, inOrder, label, printable, short, shown } from './words.js';

const NO_PRIORITY = -2147483648;

/** Queues in the order of the tree with their depth; those of `closed` hide what is below them. */
function* rowsOf(queue, closed, depth = 0) {
  yield { queue, depth };
  if (closed.has(queue.queuename)) return;
  for (const child of [...queue.children].sort((a, b) => (a.queuename < b.queuename ? -1 : 1))) yield* rowsOf(child, closed, depth + 1);
}

/** The bar of a queue: its width is the maximum, or that of the next queue above that has one. */
function QueueBar({ queue, resource, limit }) {
  const used = queue.allocatedResource[resource] || 0, reserved = queue.reservedQuota[resource] || 0;
  const pending = queue.pendingResource[resource] || 0, own = queue.maxResource[resource];
  const guaranteed = queue.guaranteedResource[resource] || 0;
  const total = limit || Math.max(used + reserved + pending, guaranteed);
  const words = [`used ${amount(resource, used)}`, reserved && `reserved ${amount(resource, reserved)}`, pending && `waiting ${amount(resource, pending)}`,
    guaranteed && `guaranteed ${amount(resource, guaranteed)}`, own === undefined ? 'no maximum' : `maximum ${amount(resource, own)}`].filter(Boolean);
  return html`<div class="queue-bar">
    <${Bar} parts=${[['used', used], ['reserved', reserved], ['pending', Math.min(pending, Math.max(0, total - used - reserved))]]}
      total=${total} mark=${guaranteed} text=${`${label(resource)}: ${words.join(', ')}`} />
    <span class="number">${short(resource, used)}${own === undefined ? '' : html`<em> / ${short(resource, own)}</em>`}</span></div>`;
}

function limitsOf(root, resource) {
  const limits = {};
  const visit = (queue, above) => {
    limits[queue.queuename] = queue.maxResource[resource] ?? above;
    queue.children.forEach((child) => visit(child, limits[queue.queuename]));
  };
  visit(root, 0);
  return limits;
}

function* usageIn(tree, path) {
  if (tree.queuePath === path) yield tree;
  for (const child of tree.children) if (path === child.queuePath || path.startsWith(`${child.queuePath}.`)) yield* usageIn(child, path);
}

/** Users or groups of a queue with their limits. */
function Users({ of, path, field }) {
  const rows = (of.data || []).flatMap((item) => [...usageIn(item.queues, path)].map((usage) => ({ name: item[field], ...usage })));
  if (!of.data) return html`<${Missing} of=${of} />`;
  if (!rows.length) return html`<p class="empty">None.</p>`;
  return html`<table class="plain"><thead><tr><th scope="col">Name</th><th scope="col">Used</th><th scope="col">Limit</th><th scope="col" class="num">Running</th></tr></thead>
    <tbody>${rows.slice(0, 50).map((row) => html`<tr key=${row.name}><td><${Name} text=${row.name} /></td><td>${printable(amounts(row.resourceUsage))}</td>
      <td>${printable(amounts(row.maxResources))}</td>
      <td class="num">${row.runningApplications.length}${row.maxApplications ? ` / ${row.maxApplications}` : ''}</td></tr>`)}</tbody></table>`;
}

/** Everything about one queue, over the right part of the page. */
function Drawer({ partition, path, queue }) {
  const base = `partition/${encodeURIComponent(partition)}`;
  const waiting = useData(queue?.isLeaf ? `${base}/queue/${segment(path)}/waiting?limit=20` : null);
  const users = useData(`${base}/usage/users`, { slow: 2 });
  const groups = useData(`${base}/usage/groups`, { slow: 2 });
  const close = () => open(link(['queues']));
  useLayoutEffect(() => {
    addEventListener('muster-close', close);
    return () => removeEventListener('muster-close', close);
  }, []);
  if (!queue) return html`<aside class="drawer" aria-label="Queue"><button type="button" class="icon close" aria-label="Close" onClick=${close}>✕</button><p class="empty">Queue ${printable(path)} does not exist.</p></aside>`;
  const names = inOrder(new Set([queue.maxResource, queue.guaranteedResource, queue.allocatedResource, queue.pendingResource, queue.reservedQuota]
    .flatMap((map) => Object.keys(map))));
  const columns = [['Guaranteed', queue.guaranteedResource], ['Used', queue.allocatedResource], ['Reserved', queue.reservedQuota],
    ['Maximum', queue.maxResource], ['Waiting', queue.pendingResource], ['Available', queue.headroom]];
  const cell = (map, name) => (name in map ? amount(name, map[name]) : '–');
  const origin = (key) => (queue.origins[key] ? ` (set by ${queue.origins[key]})` : '');
  return html`<aside class="drawer" aria-label=${`Queue ${path}`}>
    <button type="button" class="icon close" aria-label="Close" onClick=${close}>✕</button>
    <h2><${Name} text=${path} /></h2>
    <p><${State} text=${queue.status} /> ${queue.isLeaf ? 'leaf' : 'parent'}, ${queue.isManaged ? 'configured' : 'dynamic'}
      ${queue.isLeaf && html` · <a href=${link(['applications'], { queue: path })}>Applications</a>`}</p>
    <div class="scroll" tabindex="0" role="region" aria-label="Resources"><table class="plain stacked"><thead><tr><th scope="col">Resource</th>${columns.map(([title]) => html`<th scope="col" class="num">${title}</th>`)}</tr></thead>
      <tbody>${names.map((name) => html`<tr key=${name}><td><${Name} text=${label(name)} /></td>
        ${columns.map(([title, map]) => html`<td class="num" data-title=${title}>${cell(map, name)}</td>`)}</tr>`)}</tbody></table></div>
    <${Facts} rows=${{
      applications: `${queue.runningApps} running${queue.maxRunningApps ? ` of at most ${queue.maxRunningApps}${origin('maxapplications')}` : ''}`,
      order: queue.isLeaf ? `${queue.sortingPolicy}${origin('application.sort.policy')}${queue.prioritySorting ? ', by priority' : ''}` : 'fair',
      priority: queue.currentPriority === NO_PRIORITY ? '' : String(queue.currentPriority),
      'priority offset': queue.priorityOffset ? String(queue.priorityOffset) : '',
      preemption: queue.preemptionEnabled ? `${queue.isPreemptionFence ? 'fence' : 'on'}, after ${queue.preemptionDelay}` : `off${origin('preemption.policy')}`,
      preempting: Object.values(queue.preemptingResource).some(Boolean) ? amounts(queue.preemptingResource) : '',
      'preemption paused': queue.preemptionPausedUntil ? `for ${age(2 * Date.now() * 1e6 - queue.preemptionPausedUntil)}` : '',
      'quota preemption': queue.isQuotaPreemptionRunning ? 'running' : '',
      template: queue.template ? `maximum ${amounts(queue.template.maxResource)}, guaranteed ${amounts(queue.template.guaranteedResource)}` : '',
    }} />
    ${queue.isLeaf && html`<h3>Waiting, in scheduling order</h3>
      ${!waiting.data ? html`<${Missing} of=${waiting} />` : !waiting.data.length ? html`<p class="empty">None.</p>`
      : html`<ol class="line">${waiting.data.map((app) => html`<li key=${appName(app)}><${Name} text=${appName(app)} href=${appLink(app)} />
          <span>${printable(amounts(app.pendingResource))}</span><span>${age(app.submissionTime)}</span>${app.blocksOthers && html`<b>blocks the queue</b>`}</li>`)}</ol>`}`}
    <h3>Users</h3><${Users} of=${users} path=${path} field="userName" />
    <h3>Groups with limits</h3><${Users} of=${groups} path=${path} field="groupName" />
    ${Object.keys(queue.properties).length > 0 && html`<h3>Properties</h3><${Facts} rows=${Object.fromEntries(Object.entries(queue.properties)
    .map(([key, value]) => [printable(key), `${printable(value)}${origin(key)}`]))} />`}
  </aside>`;
}

export default function Queues({ partition, parts, query }) {
  const tree = useData(`partition/${encodeURIComponent(partition)}/queues`);
  const [closed, setClosed] = useState(new Set());
  const [chosen, choose] = useState('');
  const search = query.get('q') || '';
  const root = tree.data;
  const rows = useMemo(() => (root ? [...rowsOf(root, search ? new Set() : closed)] : []), [root, closed, search]);
  const resources = useMemo(() => shown(...rows.flatMap(({ queue }) => [queue.allocatedResource, queue.pendingResource, queue.guaranteedResource, queue.maxResource])), [rows]);
  if (!root) return html`<${Missing} of=${tree} what="queues" />`;
  const resource = resources.includes(chosen) ? chosen : resources[0];
  const limits = limitsOf(root, resource);
  const selected = parts[0];
  const toggle = (path) => setClosed((old) => { const next = new Set(old); if (!next.delete(path)) next.add(path); return next; });
  const visible = rows.filter(({ queue }) => !search || matches(search, queue.queuename)).slice(0, 2000);
  const setSearch = (text) => open(link(['queues', ...parts], { q: text }), { replace: true });
  return html`<div class=${`with-drawer ${selected ? 'has-drawer' : ''}`}>
    <${Card} title="Queues" class="fill" aside=${html`<${Search} value=${search} onInput=${setSearch} hint="Search queues" />
        ${resources.length > 0 && html`<${Choice} label="Resource" value=${resource} options=${resources.map((name) => [name, label(name)])} onChange=${choose} />`}`}>
      <${Legend} of=${[['used', 'used'], ['reserved', 'reserved for gangs'], ['pending', 'waiting'], ['guarantee', 'guaranteed'], ['track', 'up to the maximum']]} />
      <div class="scroll" tabindex="0" role="region" aria-label="Queues"><table class="plain queues"><thead><tr><th scope="col">Queue</th>
        <th scope="col" class="grow">${label(resource || '')}</th><th scope="col" class="num">Waiting</th><th scope="col" class="num">Running</th></tr></thead>
      <tbody>${visible.map(({ queue, depth }) => html`<tr key=${queue.queuename} class=${queue.queuename === selected ? 'selected' : ''}>
        <th scope="row"><span class=${`tree depth-${Math.min(depth, 8)}`}>
          ${queue.children.length && !search ? html`<button type="button" class="twist" aria-expanded=${!closed.has(queue.queuename)}
            aria-label=${`Queues below ${printable(queue.queuename).slice(0, 80)}`} onClick=${() => toggle(queue.queuename)}>${closed.has(queue.queuename) ? '▸' : '▾'}</button>` : html`<span class="twist"></span>`}
          <${Name} text=${search || !depth ? queue.queuename : queue.queuename.slice(queue.parent.length + 1)} href=${queueLink(queue.queuename)} />
          ${queue.status !== 'Active' && html`<${State} text=${queue.status} />`}</span></th>
        <td class="grow">${resource && html`<${QueueBar} queue=${queue} resource=${resource} limit=${limits[queue.queuename]} />`}</td>
        <td class="num">${queue.pendingResource[resource] ? short(resource, queue.pendingResource[resource]) : '–'}</td>
        <td class="num">${queue.runningApps}${queue.maxRunningApps ? html`<em> / ${queue.maxRunningApps}</em>` : ''}</td></tr>`)}</tbody></table></div>
      ${rows.length > 2000 && html`<p class="note">Only the first 2,000 of ${count(rows.length, 'queue')} are shown: search, or close queues.</p>`}
    <//>
    ${selected && html`<${Drawer} key=${selected} partition=${partition} path=${selected} queue=${find(root, selected)} />`}
  </div>`;
}

/** The queue with this path. */
function find(root, path) {
  for (const { queue } of rowsOf(root, new Set())) if (queue.queuename === path) return queue;
  return undefined;
}
