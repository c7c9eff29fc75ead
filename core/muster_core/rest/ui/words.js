// The words, units and times of the `muster` command. The tables of reasons are those of cli/muster/pending.py; a test compares
// them.

export const BLOCKED_BY = {
  "quota": "queue quota",
  "user quota": "the quota of its user or group",
  "applications": "the limit of running applications",
  "queue order": "an earlier gang in its queue",
  "admission": "an unknown queue or unknown user groups",
  "nodes": "insufficient free resources on nodes",
  "reserved": "resources that are reserved for it",
  "cluster": "nodes that are too small or too few"
};

export const SUGGESTIONS = {
  "quota": "wait until pods in these queues end, or raise the maximum of the queue in the message",
  "user quota": "wait until pods of this user or group end, or raise the limit in the message",
  "applications": "wait until an application ends, or raise the number of applications that may run",
  "queue order": "wait until the earlier gang has its resources",
  "admission": "restore the group directory, or add the queue in the message",
  "nodes": "free resources on suitable nodes, or add nodes; the pods are reported to cluster autoscalers",
  "reserved": "wait until the reserved resources on the node are free",
  "cluster": "request less, or add larger nodes: even empty nodes could not hold it"
};

/** Instead, if no reason of a node is about its resources. */
export const CONSTRAINTS = {
  "nodes": "change the constraints in the message, or add nodes that satisfy them; the pods are reported to cluster autoscalers",
  "cluster": "correct the constraints in the message, or the labels and taints of the nodes; no node satisfies them, even if it is empty"
};

/** Instead, if the request exceeds the complete quota. */
export const NEVER_FITS = {
  "quota": "request less, or raise the maximum of the queue in the message",
  "user quota": "request less, or raise the limit in the message"
};

/** Instead, for a gang that all nodes together cannot hold. */
export const GANG_CLUSTER = "request less, or add nodes: all nodes together could not hold the gang, even if they were empty";

// Reasons that only applications have, not their pods.
const GANG_REASONS = { members: 'missing members', gang: 'the rest of their gang' };
export const NOT_EVALUATED = 'not evaluated yet';

/** What a request waits for, as a phrase after "blocked by" or "wait for". */
export const blockedBy = (reason) => BLOCKED_BY[reason] || GANG_REASONS[reason] || NOT_EVALUATED;

/** The class that gives a reason its colour, the same on every page. */
export const reasonClass = (reason) => `reason-${(reason || 'none').replace(' ', '-')}`;

// Control characters, line separators, and characters that change the direction of text or are invisible.
const UNPRINTABLE = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** Text of a user with control characters as in JSON: \u001b. */
export const printable = (text) =>
  String(text ?? '').replace(UNPRINTABLE, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);

const CPU = 'vcore', MEMORY = 'memory', PODS = 'pods';
const UNITS = ['', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi'];

/** A Kubernetes quantity: 2, 1500m, 4Gi. */
export function amount(resource, value = 0) {
  if (resource === CPU) return value % 1000 ? `${value}m` : String(value / 1000);
  if (resource !== MEMORY && resource !== 'ephemeral-storage' && !resource.startsWith('hugepages-')) return String(value);
  let step = 0;
  while (Math.abs(value) >= 1024 && step < UNITS.length - 1) { value /= 1024; step += 1; }
  return `${Math.round(value * 10) / 10}${UNITS[step]}`;
}

/** A quantity in a narrow place: CPUs rounded to tenths. */
export const short = (resource, value = 0) =>
  resource === CPU ? String(Math.round(value / 100) / 10) : amount(resource, value);

export const label = (resource) => (resource === CPU ? 'cpu' : resource.replace('.deviceclass.resource.k8s.io/devices', ' devices'));

/** Names of resources, CPU and memory first. */
export const inOrder = (names) =>
  [...names].sort((a, b) => (b === CPU) - (a === CPU) || (b === MEMORY) - (a === MEMORY) || (a < b ? -1 : 1));

/** Resources worth a column or a bar: all but the number of pods, and what nobody has. */
export const shown = (...maps) =>
  inOrder(new Set(maps.flatMap((map) => Object.keys(map || {}).filter((name) => map[name] && name !== PODS))));

/** Several quantities: cpu 1500m, memory 4Gi. */
export const amounts = (map) =>
  inOrder(Object.keys(map || {}).filter((name) => map[name] && !(name === PODS && map[name] === 1)))
    .map((name) => `${label(name)} ${amount(name, map[name])}`).join(', ') || '–';

const SPANS = [[86400, 'd'], [3600, 'h'], [60, 'm'], [1, 's']];

/** A duration in its two largest units: 3m20s. */
export function span(seconds) {
  let left = Math.max(0, Math.floor(seconds)), text = '', parts = 0;
  for (const [unit, letter] of SPANS) {
    if (left >= unit && parts < 2) { text += Math.floor(left / unit) + letter; parts += 1; } else if (parts) break;
    left %= unit;
  }
  return text || '0s';
}

/** The time that the pages show, in ms; 0 = now. Set by data.js. */
export const shownTime = { at: 0 };

/** Time since nanoseconds of the epoch. */
export const age = (ns, now = shownTime.at || Date.now()) => (ns ? span(now / 1000 - ns / 1e9) : '–');

/** A time of the day, with the date if it is another one. */
export function clock(ns) {
  const date = new Date(ns / 1e6);
  const time = date.toLocaleTimeString('en-GB');
  return date.toDateString() === new Date().toDateString() ? time : `${date.toISOString().slice(0, 10)} ${time}`;
}

/** 1 node, 3 nodes. */
export const count = (number, thing) => `${number.toLocaleString('en')} ${thing}${number === 1 ? '' : 's'}`;

/** NAMESPACE/ID as the command takes it. */
export const appName = (app) => printable(app.namespace ? `${app.namespace}/${app.applicationID}` : app.applicationID);
