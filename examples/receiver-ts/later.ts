// An endpoint for work that takes longer than any request may. It answers each push with
// 202 and posthaste-lease: keep, works, extends the lease meanwhile, and then says what
// came of it, with the receipt that the push brought and no key. The subscription needs
// defer: true.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { Webhook } from "standardwebhooks";

const server = process.env.POSTHASTE_URL ?? "http://127.0.0.1:2319";
const maxBody = 1_000_000; // bytes, as much as one item may hold
const maxHandled = 100_000; // ids
// How long an item is ours without another word from us. Whoever else may take it over
// has to wait so long after we died, so it is short, and extended.
const keep = 60; // seconds

const secrets = (process.env.WEBHOOK_SECRET ?? "").split(" ").filter((s) => s !== "");
if (secrets.length === 0) throw new Error("set WEBHOOK_SECRET");
const webhooks = secrets.map((secret) => new Webhook(secret));

// What is worked on, and the ids of what is done. Better is a table in the database that
// holds what the work results in.
const running = new Map<string, Job>();
const handled = new Set<string>();
const stopping = new AbortController();

interface Export {
  export: number;
  pages: number;
  tape?: boolean;
}

interface Job {
  id: string;
  attempt: number;
  item: Export;
  receipt: string; // the newest: an item whose lease lapsed comes with another one
}

// call settles with a receipt, which is all that this endpoint has to show. What the
// server did not get, or not take for now, is sent again for as long as the item is ours.
async function call(method: string, message: object): Promise<void> {
  for (const until = Date.now() + (keep / 2) * 1000; ; await sleep(500)) {
    let refused: string;
    try {
      const answer = await fetch(`${server}/v1/${method}`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(message),
        signal: AbortSignal.timeout(10_000),
      });
      if (answer.ok) return;
      refused = `${method}: ${answer.status} ${await answer.text()}`;
      if (answer.status < 500 && answer.status !== 429) throw new Error(refused, { cause: "final" });
    } catch (error) {
      if (error instanceof Error && error.cause === "final") throw error;
      refused = `${method}: ${error}`;
    }
    if (Date.now() > until) throw new Error(refused);
  }
}

// work makes an export.
async function work(job: Job): Promise<void> {
  if (job.item.tape && job.attempt === 1) throw new Error("the tape is being mounted");
  for (let page = 1; page <= job.item.pages; page++) {
    await sleep(1000, undefined, { signal: stopping.signal }); // the work
    console.log(`export ${job.item.export}: page ${page}`);
  }
}

// extend keeps the item ours until the work has ended. An error is no reason to stop
// working: the server may be back before the lease is over.
async function extend(job: Job, ended: AbortSignal): Promise<void> {
  while (!ended.aborted) {
    await call("queue.extend", { receipts: [job.receipt], lease_timeout: `${keep}s` }).catch(console.warn);
    await sleep((keep / 3) * 1000, undefined, { signal: ended }).catch(() => {});
  }
}

// finish works, and tells the server what came of it.
async function finish(job: Job): Promise<void> {
  const ended = new AbortController();
  void extend(job, ended.signal);
  const name = `export ${job.item.export}`;
  try {
    await work(job);
    console.log(`${name}: done`);
    remember(job.id);
    await call("queue.complete", { receipts: [job.receipt] });
  } catch (error) {
    if (handled.has(job.id)) throw error; // the server does not know that it is done
    if (stopping.signal.aborted) {
      console.log(`${name}: given back`);
      await call("queue.release", { receipts: [job.receipt] }); // at once, uncounted
      return;
    }
    const reason = error instanceof Error ? error.message : String(error);
    console.log(`${name}: later, ${reason}`);
    await call("queue.retry", { items: [{ id: job.receipt, delay: "1s", reason }] });
  } finally {
    ended.abort();
  }
}

function remember(id: string): void {
  handled.add(id);
  for (const oldest of handled) {
    if (handled.size <= maxHandled) break;
    handled.delete(oldest);
  }
}

// take begins a job, or gives one that runs its new receipt.
function take(job: Job): void {
  const same = running.get(job.id);
  if (same !== undefined) {
    same.receipt = job.receipt;
    return;
  }
  running.set(job.id, job);
  finish(job)
    // The item comes again when its lease is over. If it was done, we know.
    .catch((error) => console.warn(`export ${job.item.export}: the server does not know: ${error}`))
    .finally(() => running.delete(job.id));
}

function verified(request: IncomingMessage, body: Buffer): boolean {
  const headers = request.headers as Record<string, string>;
  if (headers["webhook-id"]?.includes(".") ?? true) return false;
  return webhooks.some((webhook) => {
    try {
      webhook.verify(body, headers, { jsonParse: false });
      return true;
    } catch {
      return false;
    }
  });
}

async function receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of request) {
    size += part.length;
    if (size > maxBody) {
      response.writeHead(413, { connection: "close" }).end();
      return;
    }
    parts.push(part);
  }
  const body = Buffer.concat(parts);
  if (!verified(request, body)) {
    response.writeHead(401).end(); // who sent it learns no more
    return;
  }
  const header = (name: string) => String(request.headers[name] ?? "");
  const id = header("webhook-id");
  const receipt = header("posthaste-receipt");
  if (handled.has(id)) {
    response.writeHead(204).end(); // done, and the server knows now
    return;
  }
  let item: Export;
  try {
    item = JSON.parse(body.toString());
  } catch {
    response.writeHead(422, { "posthaste-retry": "never" }).end(); // the item is buried
    return;
  }
  if (receipt === "") {
    console.warn("the subscription has no defer");
    response.writeHead(503).end();
    return;
  }
  take({ id, receipt, item, attempt: Number(header("posthaste-attempt")) });
  response.writeHead(202, { "posthaste-lease": "keep" }).end();
}

const endpoint = createServer((request, response) => {
  receive(request, response).catch(() => request.destroy()); // the body broke off
});
endpoint.requestTimeout = 10_000;
const [host, port] = (process.env.ADDRESS ?? "127.0.0.1:8080").split(":");
endpoint.listen(Number(port), host, () => {
  console.log(`listening on http://${host}:${(endpoint.address() as AddressInfo).port}`);
});
// What runs is given back, and the process ends when the server knows.
process.once("SIGTERM", () => {
  stopping.abort();
  endpoint.close();
});
