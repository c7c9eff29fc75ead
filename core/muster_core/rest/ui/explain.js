// Why an application is pending: what `muster explain` computes from the same JSON (cli/muster/pending.py).
import { blockedBy, CONSTRAINTS, GANG_CLUSTER, NEVER_FITS, NOT_EVALUATED, SUGGESTIONS } from './words.js';

const GANG_INCOMPLETE = 'its gang is not complete';
const IS_RESOURCE = /^(Insufficient |Too many pods)/;

export const podName = (item) => item.allocationTags['kubernetes.io/meta/podName'] || item.allocationKey;

/** placeholder, slot for a placeholder without a pod, or pod. */
export const kindOf = (item) => (item.placeholder ? (item.is_virtual ? 'slot' : 'placeholder') : 'pod');

/** bound, terminating, replaces or pending. */
export function stateOf(item) {
  if (item.nodeId) return item.releasing ? 'terminating' : 'bound';
  return item.replaces ? 'replaces a placeholder' : 'pending';
}

/** The present reason of a request; none if it only waits for its gang. */
export function reasonOf(item) {
  const current = (item.allocationLog || []).findLast((entry) => entry.reason);
  return current && current.reason !== 'gang' ? current : null;
}

const isConstrained = (reason) => {
  const nodes = Object.keys(reason.nodes);
  return nodes.length > 0 && !nodes.some((text) => IS_RESOURCE.test(text));
};

function suggestion(reason, app) {
  if (reason.code in CONSTRAINTS) {
    if (app.unsatisfiable) return isConstrained(reason) ? CONSTRAINTS.cluster : GANG_CLUSTER;
    if (isConstrained(reason)) return CONSTRAINTS[reason.code];
  }
  if (reason.code in NEVER_FITS && reason.message.includes('it can never fit')) return NEVER_FITS[reason.code];
  return SUGGESTIONS[reason.code] || '';
}

/** The reasons of these requests, that of most pods first. */
function grouped(requests, app) {
  const found = new Map();
  for (const item of requests) {
    const entry = reasonOf(item) || { message: NOT_EVALUATED }, kind = kindOf(item);
    const key = `${kind} ${entry.message}`;
    if (!found.has(key)) found.set(key, { kind, message: entry.message, code: entry.reason || '', nodes: entry.reasons || {}, count: 0, pods: [], groups: new Set() });
    const reason = found.get(key);
    reason.count += item.pendingCount;
    if (reason.pods.length < 5) reason.pods.push(podName(item));
    if (item.taskGroupName) reason.groups.add(item.taskGroupName);
  }
  const reasons = [...found.values()].sort((a, b) => b.count - a.count || (a.message < b.message ? -1 : 1));
  for (const reason of reasons) reason.suggestion = suggestion(reason, app);
  return reasons;
}

/** { status, reasons, preemption }: why the application is pending. Its reasons are empty if it is not. */
export function explain(app) {
  const pending = app.requests.filter((item) => !item.replaces);
  const placeholders = app.requests.filter((item) => item.placeholder);
  const members = pending.filter((item) => !item.placeholder);
  const isOpen = members.length > 0 && app.gangSchedulingStyle && placeholders.length > 0;
  const waitsForGang = isOpen && !members.some(reasonOf);
  const reasons = grouped(waitsForGang ? placeholders : pending, app);
  if (app.membersMissing) reasons.unshift({ kind: 'gang', code: 'members', message: app.membersMissing, nodes: {}, count: 0, pods: [], groups: new Set(), suggestion: '' });
  const short = [...new Set(reasons.map((reason) => reason.code).filter(Boolean).map(blockedBy))].join(', ');
  const by = short && ` blocked by ${short}`;
  const bound = app.allocations.filter((item) => !item.is_virtual).length;
  const number = pending.reduce((sum, item) => sum + item.pendingCount, 0);
  const verdict = app.unsatisfiable ? 'Unsatisfiable' : 'Pending';
  const preemption = [...new Set(app.requests.flatMap((item) => (item.allocationLog || []).filter((entry) => !entry.reason)
    .map((entry) => `${entry.message} (${entry.count} times)`)))];
  let status = `${verdict}: ${bound ? `${number} of ${number + bound}` : number}${by || ' not evaluated yet'}`;
  if (app.rejectedMessage) status = `Rejected: ${app.rejectedMessage}`;
  else if (app.failureMessage) status = `${app.applicationState}: ${app.failureMessage}`;
  else if (app.finishedTime || !(app.requests.length || app.allocations.length)) status = `No pending pods: the application is ${app.applicationState}`;
  else if (!app.requests.length) status = 'All pods are bound';
  else if (!pending.length) status = 'Replacing placeholders that are being deleted';
  else if (app.backoffDeadline) status = 'Pending: backing off after repeated scheduling failures';
  else if (waitsForGang || (placeholders.length > 0 && !bound)) {
    status = `${verdict}: ${GANG_INCOMPLETE}${app.unsatisfiable ? ', and even empty nodes or unused quotas could not hold it' : by && `,${by}`}`;
  }
  return { status, reasons, preemption };
}
