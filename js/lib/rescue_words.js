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
  },
};
