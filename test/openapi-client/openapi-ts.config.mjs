// Makes the client of walk.ts from the document that the server under test answered.
export default {
  input: 'openapi.yaml',
  output: { path: 'client', importFileExtension: '.js' },
  plugins: ['@hey-api/typescript', '@hey-api/sdk', '@hey-api/client-fetch'],
};
