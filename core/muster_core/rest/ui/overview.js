// Overview: one sentence about what holds most work back, then usage, waiting requests by reason, history and health.
import { html, useEffect, useRef } from './html.js';
import { eventWords, useData, useLive } from './data.js';
import { appLink, Bar, Card, Facts, Legend, link, Missing, Name, queueLink, Reason, Usage } from './parts.js';
import { age, amounts, appName, blockedBy, clock, count, label, printable, reasonClass, shown } from './words.js';
import uPlot from './vendor/uplot.js';

/** The sentence on top: health first, then the reason of most waiting requests. */
function Headline({ waiting, health, partition }) {
  const failed = (health?.HealthChecks || []).filter((check) => !check.Succeeded);
  const top = waiting?.[0];
  const total = (waiting || []).reduce((sum, entry) => sum + entry.requests, 0);
  if (failed.length) {
    return html`<h1 class="bad">${count(failed.length, 'health check')} failed: ${printable(failed[0].Name)}.
      <small>${printable(failed[0].DiagnosisMessage)}</small></h1>`;
  }
  if (!waiting) return html`<h1> </h1>`;
  if (!top) {
    const running = partition.applications.Running || 0;
    return html`<h1>Nothing waits. <small>${count(running, 'application')} running on ${count(partition.totalNodes, 'node')}.</small></h1>`;
  }
  return html`<h1>${total === top.requests ? count(total, 'waiting pod') : `${top.requests.toLocaleString('en')} of ${count(total, 'waiting pod')}`}
    ${' '}(${count(top.applications, 'application')}) ${total === 1 ? 'is' : 'are'} ${top.reason ? 'blocked by ' : ''}<span
      class=${`key ${reasonClass(top.reason)}`}>${blockedBy(top.reason)}</span>.
    <small>Longest: <${Name} text=${appName(top)} href=${appLink(top)} /> in <${Name} text=${top.queueName} href=${queueLink(top.queueName)} /> for
      ${' '}${age(top.submissionTime)}. ${printable(top.message)}</small></h1>`;
}

function Waiting({ of }) {
  if (!of.data) return html`<${Missing} of=${of} />`;
  if (!of.data.length) return html`<p class="empty">No pod waits for resources.</p>`;
  const total = of.data.reduce((sum, entry) => sum + entry.requests, 0);
  return html`<div class="waiting">
    <${Bar} total=${total} parts=${of.data.map((entry) => [reasonClass(entry.reason), entry.requests])} text=${`${total} waiting pods by reason`} />
    <table class="plain"><thead><tr><th scope="col">Blocked by</th><th scope="col" class="num">Pods</th><th scope="col" class="num">Applications</th>
      <th scope="col" class="wide">Requests</th><th scope="col" class="wide">Longest</th></tr></thead><tbody>
      ${of.data.map((entry) => html`<tr key=${entry.reason || ''}>
        <td><a href=${link(['applications'], { reason: entry.reason || 'none' })}><${Reason} reason=${entry.reason} /></a></td>
        <td class="num">${entry.requests.toLocaleString('en')}</td><td class="num">${entry.applications.toLocaleString('en')}</td>
        <td class="wide">${printable(amounts(entry.resource))}</td>
        <td class="wide"><${Name} text=${appName(entry)} href=${appLink(entry)} /> ${age(entry.submissionTime)}</td></tr>`)}
    </tbody></table></div>`;
}

const clockTime = (seconds) => new Date(seconds * 1000).toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' });

/** A colour of the style sheet as a canvas knows it. */
function resolved(node, name) {
  node.style.color = `var(${name})`;
  const { color } = getComputedStyle(node);
  node.style.color = '';
  return color;
}

/** A time series of one value per minute. Colours are those of the style sheet. */
function Series({ title, points, color }) {
  const box = useRef(null), plot = useRef(null);
  const last = points.length ? points[points.length - 1][1] : 0;
  useEffect(() => {
    const draw = () => {
      plot.current?.destroy();
      const [line, ink, faint] = [color, '--faint', '--line'].map((name) => resolved(box.current, name));
      const axis = { stroke: ink, grid: { stroke: faint, width: 1 }, ticks: { stroke: faint }, font: '11px system-ui, sans-serif' };
      plot.current = new uPlot({
        width: Math.max(200, box.current.clientWidth), height: 150, legend: { show: false }, cursor: { y: false, points: { size: 6 } },
        scales: { x: { range: (_, low, high) => [Math.min(low, high - 600), high] }, y: { range: (_, low, high) => [0, Math.max(4, high * 1.1)] } },
        axes: [{ ...axis, size: 28, space: 70, values: (_, ticks) => ticks.map(clockTime) }, { ...axis, size: 46, space: 36 }],
        series: [{}, { label: title, stroke: line, fill: `color-mix(in srgb, ${line} 14%, transparent)`, width: 1.5, points: { show: points.length < 3 } }],
      }, [points.map(([at]) => at), points.map(([, value]) => value)], box.current);
    };
    draw();
    const node = box.current;
    const observer = new ResizeObserver(() => plot.current?.setSize({ width: Math.max(200, node.clientWidth), height: 150 }));
    observer.observe(node);
    addEventListener('muster-theme', draw);
    return () => { observer.disconnect(); removeEventListener('muster-theme', draw); plot.current?.destroy(); };
  }, [points.length, points.length ? points[points.length - 1][0] : 0]);
  return html`<figure class="series"><figcaption>${title} <b>${last.toLocaleString('en')}</b></figcaption>
    <div ref=${box} class="plot" role="img" aria-label=${`${title} per minute, now ${last}`}></div></figure>`;
}

/** One point per minute, and the present value. */
const points = (data, field, now) => [...(data || []).map((sample) => [sample.timestamp / 1e9, Number(sample[field])]), [Math.ceil(Date.now() / 10000) * 10, now]];

/** How many nodes are used how much: one column for each tenth. */
function NodeUse({ of }) {
  const known = (of || []).filter((resource) => resource.type !== 'pods' && resource.utilization.some((bucket, at) => at && bucket.numOfNodes));
  if (!known.length) return html`<p class="empty">No node is used.</p>`;
  return html`<div class="tenths">${known.slice(0, 4).map((resource) => {
    const most = Math.max(...resource.utilization.map((bucket) => bucket.numOfNodes));
    return html`<div key=${resource.type} class="tenth"><${Name} text=${label(resource.type)} />
      <div class="columns">${resource.utilization.map((bucket) => html`<i key=${bucket.bucketName} role="img"
        aria-label=${`${bucket.bucketName}: ${count(bucket.numOfNodes, 'node')}`} title=${`${bucket.bucketName}: ${count(bucket.numOfNodes, 'node')}`}
        style=${{ height: `${bucket.numOfNodes ? Math.max(6, (100 * bucket.numOfNodes) / most) : 1}%` }}></i>`)}</div><div class="scale"><span>0 %</span><span>100 %</span></div></div>`;
  })}</div>`;
}

// Events that are worth a line: states of applications, changes of nodes and queues, preemptions and timeouts.
const TOLD = new Set([102, 202, 204, 206, 207, 208, 209, 210, 211, 212, 213, 215, 300, 302, 304, 306, 400, 401, 403, 404, 407, 501, 502, 504]);

export default function Overview({ partition: name }) {
  const path = `partition/${encodeURIComponent(name)}`;
  const partitions = useData('partitions');
  const waiting = useData(`${path}/waiting`);
  const root = useData(`${path}/queue/root`);
  const health = useData('scheduler/healthcheck', { slow: 3 });
  const clusters = useData('clusters', { slow: 6 });
  const missing = useData(`${path}/autoscaling`, { slow: 2 });
  const apps = useData('history/apps', { slow: 3 });
  const pods = useData('history/containers', { slow: 3 });
  const use = useData('scheduler/node-utilizations', { slow: 3 });
  const events = useLive((state) => state.events);
  const at = useLive((state) => state.at);
  const partition = (partitions.data || []).find((item) => item.name === name);
  if (!partition) return html`<${Missing} of=${partitions} />`;
  const { capacity } = partition.capacity, queue = root.data;
  const cluster = (clusters.data || []).find((item) => item.partition === name);
  const states = Object.entries(partition.applications).filter(([state]) => state !== 'total').sort(([a], [b]) => (a < b ? -1 : 1));
  const notices = events.filter((record) => record.message || TOLD.has(record.eventChangeDetail)).slice(-8).reverse();
  const needed = (missing.data || []).reduce((sum, item) => sum + item.count, 0);
  return html`<div class="stack">
    <${Headline} waiting=${waiting.data} health=${health.data} partition=${partition} />
    <div class="columns2">
      <div class="col">
      <${Card} title="Usage" aside=${html`<${Legend} of=${[['used', 'used by queues'], ['reserved', 'reserved quota']]} />`}>
        ${shown(capacity).map((resource) => html`<${Usage} key=${resource} resource=${resource} total=${capacity[resource]}
          used=${partition.capacity.usedCapacity[resource]} reserved=${queue?.reservedQuota[resource]} />`)}
        ${needed > 0 && html`<p class="note">Nodes are missing for ${count(needed, 'pod')}: ${printable((missing.data || []).slice(0, 3)
          .map((item) => `${item.count} × ${amounts(item.resource)}`).join('; '))}</p>`}
      <//>
      <${Card} title="History">
        ${apps.error ? html`<${Missing} of=${apps} />` : html`<div class="pair"><${Series} title="Running applications" points=${points(apps.data, 'totalApplications', partition.applications.Running || 0)} color="--used" />
        <${Series} title="Allocations" points=${points(pods.data, 'totalContainers', partition.totalContainers)} color="--accent2" /></div>`}
      <//>
      <${Card} title="Scheduler" aside=${html`<a href=${link(['health'])}>Health</a>`}>
        <${Facts} rows=${{
          health: health.data ? (health.data.Healthy ? html`<span class="chip good">all checks passed</span>` : html`<span class="chip bad">checks failed</span>`) : at ? '' : 'not checked yet',
          version: cluster && `${cluster.coreVersion}, up for ${age(cluster.startTime)}`,
          nodes: `${count(partition.totalNodes, 'node')}, ${partition.nodeSortingPolicy.type} order`,
          allocations: partition.totalContainers.toLocaleString('en'),
          preemption: partition.preemptionEnabled ? 'on' : 'off',
        }} />
      <//>
      </div><div class="col">
      <${Card} title="Waiting" class="first" aside=${html`<a href=${link(['applications'], { waiting: '1' })}>All</a>`}><${Waiting} of=${waiting} /><//>
      <${Card} title="Applications" aside=${html`<a href=${link(['applications'])}>${count(partition.applications.total || 0, 'application')}</a>`}>
        <${Bar} total=${partition.applications.total || 0} parts=${states.map(([state, number]) => [`state-${state}`, number])} text="applications by state" />
        <ul class="legend">${states.map(([state, number]) => html`<li key=${state}><i class=${`state-${state}`}></i>${number.toLocaleString('en')} ${state}</li>`)}</ul>
        <h3>Nodes by usage</h3>
        <${NodeUse} of=${(use.data || []).find((item) => item.partition === name)?.utilizations} />
      <//>
      <${Card} title="Latest events">
        ${notices.length ? html`<ul class="events">${notices.map((record) => html`<li key=${`${record.timestampNano}${record.objectID}${record.referenceID}${record.eventChangeDetail}`}>
          <time>${clock(record.timestampNano)}</time><span class="what">${eventWords(record).about} ${eventWords(record).what}</span>
          <${Name} text=${record.message ? `${record.objectID}: ${record.message}` : record.objectID} /></li>`)}</ul>` : html`<p class="empty">${at ? 'Only the latest are known.' : 'No events yet.'}</p>`}
      <//>
      </div>
    </div>
  </div>`;
}
