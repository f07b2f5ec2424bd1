// Verifies requests, which come as JSON, and prints what each library says of each.
import { readFileSync } from "node:fs";
import * as standardwebhooks from "standardwebhooks";
import * as svix from "svix";

const libraries = { standardwebhooks, svix };

for (const { name, secret, headers, body } of JSON.parse(readFileSync(process.argv[2], "utf8"))) {
  for (const [library, { Webhook, WebhookVerificationError }] of Object.entries(libraries)) {
    let verdict = "verified";
    let payload;
    try {
      payload = new Webhook(secret).verify(body, headers);
    } catch (error) {
      if (!(error instanceof WebhookVerificationError)) throw error;
      verdict = "refused";
    }
    console.log(JSON.stringify({ name, library, verdict, payload }));
  }
}
