// An endpoint for items that posthaste pushes. It believes only what is signed, works
// once for each item, and answers 2xx only when the work is done.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Webhook } from "standardwebhooks";

const maxBody = 1_000_000; // bytes, as much as one item may hold
const maxHandled = 100_000; // ids

// What subscriptions.create answered; while it is changed, both, with a space between.
const secrets = (process.env.WEBHOOK_SECRET ?? "").split(" ").filter((s) => s !== "");
if (secrets.length === 0) throw new Error("set WEBHOOK_SECRET");
const webhooks = secrets.map((secret) => new Webhook(secret));

// The work on each item, which may still run. Better is a table in the database that
// holds what the work results in: with the id written in the same transaction, no
// crash has the work done twice.
const handled = new Map<string, Promise<void>>();

// Never is an item that no repeat will make sense of.
class Never extends Error {}

async function work(kind: string, attempt: string, body: Buffer): Promise<void> {
  let item: { order: number };
  try {
    item = JSON.parse(body.toString());
  } catch {
    throw new Never("not JSON");
  }
  console.log(`order ${item.order}: ${kind}, attempt ${attempt}`);
}

// once works on an item unless it was done. A second attempt that comes while the first
// one runs waits for it. What failed is worked on again.
function once(id: string, start: () => Promise<void>): Promise<void> {
  const known = handled.get(id);
  if (known !== undefined) return known;
  const running = start();
  handled.set(id, running);
  running.catch(() => handled.delete(id));
  for (const oldest of handled.keys()) {
    if (handled.size <= maxHandled) break;
    handled.delete(oldest);
  }
  return running;
}

// verified says whether one of the secrets signed this body, under this id, within five
// minutes. An id with a dot could be read as another id with another time.
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

// read returns the body as it came, or undefined if it is too large.
async function read(request: IncomingMessage): Promise<Buffer | undefined> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of request) {
    size += part.length;
    if (size > maxBody) return undefined;
    parts.push(part);
  }
  return Buffer.concat(parts);
}

async function receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const body = await read(request);
  if (body === undefined) {
    response.writeHead(413, { connection: "close" }).end();
    return;
  }
  if (!verified(request, body)) {
    console.warn(`refused what ${request.socket.remoteAddress} sent`); // who sent it learns no more than 401
    response.writeHead(401).end();
    return;
  }
  const header = (name: string) => decodeURIComponent(String(request.headers[name] ?? ""));
  try {
    await once(header("webhook-id"), () => work(header("posthaste-kind"), header("posthaste-attempt"), body));
    response.writeHead(204).end();
  } catch (error) {
    if (error instanceof Never) {
      response.writeHead(422, { "posthaste-retry": "never" }).end(); // the item is buried
    } else {
      response.writeHead(503).end(); // it comes again
    }
  }
}

const server = createServer((request, response) => {
  receive(request, response).catch(() => request.destroy()); // the body broke off
});
server.requestTimeout = 10_000;
const [host, port] = (process.env.ADDRESS ?? "127.0.0.1:8080").split(":");
server.listen(Number(port), host, () => {
  console.log(`listening on http://${host}:${(server.address() as AddressInfo).port}`);
});
// Requests that run are answered, so that their items need not come again.
process.once("SIGTERM", () => server.close());
