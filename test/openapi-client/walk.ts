// The walk of the README, by a client that was generated from /openapi.yaml: what a
// program of somebody who read nothing else would look like. It ends with 1 if a call
// does, and prints what came of each for the test to judge.
//
//   node walk.js URL ENDPOINT, with the key in POSTHASTE_KEY

import { client } from './client/client.gen.js';
import {
  health,
  itemsInfo,
  produceRaw,
  queueComplete,
  queueLease,
  queueProduce,
  queueStats,
  queuesCreate,
  queuesInfo,
  subscriptionsCreate,
  subscriptionsPause,
  subscriptionsResume,
} from './client/index.js';

const [url, endpoint] = process.argv.slice(2);
if (!url || !endpoint) throw new Error('want URL and ENDPOINT');
client.setConfig({ baseUrl: url, auth: process.env.POSTHASTE_KEY });

function print(what: string, value: unknown) {
  console.log(JSON.stringify({ what, value }));
}

// Calls throw their Reply if they are refused, but where the refusal is asked for.
const must = { throwOnError: true } as const;

const well = await health(must);
print('health', well.data.status);

await queuesCreate({ ...must, body: { queue_name: 'orders', lease_timeout: '2m', max_attempts: 5 } });
const settings = await queuesInfo({ ...must, body: { queue_name: 'orders' } });
print('lease_timeout', settings.data.lease_timeout);

const shop = await subscriptionsCreate({
  ...must,
  body: { name: 'shop', queue_name: 'orders', url: endpoint, retry: { min_backoff: '50ms' } },
});
print('secret', shop.data.secret?.startsWith('whsec_'));

const hello = await produceRaw({
  ...must,
  path: { queue: 'orders' },
  body: 'hello, posthaste',
  bodySerializer: null,
  headers: { 'Content-Type': 'text/plain', 'Posthaste-Kind': 'greeting' },
});
print('raw', hello.data.items.length);

const paid = {
  queue_name: 'orders',
  items: [
    { kind: 'order.paid', encoding: 'application/json', utf8: '{"order": 17}', idempotency_key: 'paid-17' },
    { kind: 'order.reminder', utf8: 'order 17 again', delay: '100ms' },
  ],
};
const first = await queueProduce({ ...must, body: paid });
const again = await queueProduce({ ...must, body: { ...paid, items: paid.items.slice(0, 1) } });
print('duplicate', again.data.items[0]?.duplicate && again.data.items[0].item_id === first.data.items[0]?.item_id);

const paused = await subscriptionsPause({ ...must, body: { name: 'shop' } });
print('paused', paused.data.state);

// What was produced so far may be on its way, and is nobody else's. A queue of its own
// shows the rest of the walk whatever the pushes do.
await queuesCreate({ ...must, body: { queue_name: 'pulled' } });
await produceRaw({
  ...must,
  path: { queue: 'pulled' },
  body: 'pull me',
  bodySerializer: null,
  headers: { 'Content-Type': 'text/plain', 'Posthaste-Kind': 'pulled' },
});
const lease = await queueLease({ ...must, body: { queue_name: 'pulled', text: true, request_timeout: '20s' } });
const item = lease.data.items[0];
if (!item) throw new Error('nothing was leased');
print('leased', [item.kind, item.utf8, item.attempts]);

const where = await itemsInfo({ ...must, body: { item_id: item.item_id } });
print('why', where.data.items[0]?.why);

const done = await queueComplete({ ...must, body: { receipts: [item.receipt] } });
print('completed', done.data.results[0]?.status);

// A refusal has a type of its own, by which programs decide.
const stale = await queueComplete({ body: { receipts: [item.receipt] } });
print('completed again', [stale.response?.status, stale.error?.code_text]);

const stats = await queueStats({ ...must, body: { queue_name: 'pulled' } });
print('left', stats.data.logical_queues[0]?.partitions[0]?.total);

const resumed = await subscriptionsResume({ ...must, body: { name: 'shop' } });
print('resumed', resumed.data.state);
