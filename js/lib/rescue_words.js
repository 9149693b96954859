// What is said about a prompt that ran out of memory and its rerun.

export const RESCUE_WORDS = {
  en: {
    rescueTitle: "Out of memory",
    rescueMany: "Out of memory: {count} prompts",
    rescueButton: "Run again with OOM Guard",
    rescueClose: "Close",
    rescueRuns: "Out of memory: it runs again with OOM Guard",
    rescueTwice: "Out of memory in the second try as well",
    rescueComma: ", ",
    rescueSecond: "Second try of a run that had run out of memory.",
    leftTitle: "ComfyUI ended before its queue was done",
    leftAgain: "Queue them again",
    leftDiscard: "Discard",
    leftQueued: "{count} queued again.",
    leftRefused: "Prompt {id} is not queued again: ComfyUI says {error}",
  },
  zh: {
    rescueTitle: "内存不足",
    rescueMany: "内存不足：{count} 个任务",
    rescueButton: "使用 OOM Guard 再次运行",
    rescueClose: "关闭",
    rescueRuns: "内存不足：正在使用 OOM Guard 再次运行",
    rescueTwice: "第二次运行同样内存不足",
    rescueComma: "、",
    rescueSecond: "这是内存不足之后的第二次运行。",
    leftTitle: "ComfyUI 在队列完成前已结束",
    leftAgain: "重新排队",
    leftDiscard: "丢弃",
    leftQueued: "已重新排队 {count} 个任务。",
    leftRefused: "任务 {id} 没有重新排队：ComfyUI 的答复是 {error}",
  },
};
