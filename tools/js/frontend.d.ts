// ComfyUI's frontend as its pages give it to a pack; the types are those that it publishes.
type Frontend = import("@comfyorg/comfyui-frontend-types").ComfyApp;
type Events = { addEventListener(type: string, listener: (event: CustomEvent) => void): void };

declare module "*/scripts/app.js" {
  export const app: Frontend;
}
declare module "*/scripts/api.js" {
  /** A server's own events have names that the types cannot know. */
  export const api: import("@comfyorg/comfyui-frontend-types").ComfyApi & Events;
}
