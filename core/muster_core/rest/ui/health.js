// Health: checks, versions, placement rules and the active configuration.
import { html } from './html.js';
import { useData } from './data.js';
import { Card, Facts, Missing } from './parts.js';
import { age, clock, count, printable } from './words.js';

const filterWords = (filter) => (filter && (filter.userList.length || filter.groupList.length || filter.userExp || filter.groupExp)
  ? `${filter.type} ${[...filter.userList, filter.userExp, ...filter.groupList.map((group) => `group ${group}`), filter.groupExp].filter(Boolean).join(', ')}` : '');

/** A placement rule in one line, with the rules for its parents. */
function ruleWords(rule) {
  const parameters = Object.entries(rule.parameters || {}).map(([key, value]) => `${key} ${value}`).join(', ');
  return [parameters, filterWords(rule.filter), rule.parentRule && `parent: ${rule.parentRule.name} (${ruleWords(rule.parentRule)})`].filter(Boolean).join('; ');
}

export default function Health({ partition }) {
  const health = useData('scheduler/healthcheck');
  const clusters = useData('clusters', { slow: 3 });
  const rules = useData(`partition/${encodeURIComponent(partition)}/placementrules`, { slow: 6 });
  const config = useData('config', { slow: 6 });
  return html`<div class="stack"><div class="columns2"><div class="col">
    <${Card} title="Checks" aside=${health.data && html`<span class=${`chip ${health.data.Healthy ? 'good' : 'bad'}`}>${health.data.Healthy ? 'all checks passed' : 'checks failed'}</span>`}>
      ${!health.data ? (health.error?.status === 404 ? html`<p class="empty">Not checked yet.</p>` : html`<${Missing} of=${health} />`)
    : html`<ul class="checks">${health.data.HealthChecks.map((check) => html`<li key=${check.Name} class=${check.Succeeded ? 'good' : 'bad'}>
        <b>${check.Succeeded ? '✓' : '✕'}</b><span>${printable(check.Name)}<em>${printable(check.Succeeded ? check.Description : check.DiagnosisMessage)}</em></span></li>`)}</ul>`}
    <//></div><div class="col">
    <${Card} title="Scheduler">${!clusters.data ? html`<${Missing} of=${clusters} />` : clusters.data.map((cluster) => html`<${Facts} key=${cluster.partition} rows=${{
      partition: printable(cluster.partition), core: cluster.coreVersion, 'started at': `${clock(cluster.startTime)}, ${age(cluster.startTime)} ago`,
      operators: cluster.rmBuildInformation.map((build) => printable(`${build.rmId} ${build.buildVersion}`)).join(', '),
    }} />`)}<//>
    <${Card} title="Placement rules" aside=${rules.data && count(rules.data.length, 'rule')}>${!rules.data ? html`<${Missing} of=${rules} />`
    : html`<ol class="line">${rules.data.map((rule, at) => html`<li key=${at}>${printable(rule.name)} <span>${printable(ruleWords(rule))}</span></li>`)}</ol>`}<//>
    </div></div>
    <${Card} title="Active configuration">${config.data ? html`<pre class="config" tabindex="0">${printableLines(config.data)}</pre>` : html`<${Missing} of=${config} />`}<//>
  </div>`;
}

/** Text of several lines. */
const printableLines = (text) => String(text).split('\n').map(printable).join('\n');
